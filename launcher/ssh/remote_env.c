/* remote_env.c: the variables that are not sent. */
#include "launcher/ssh/remote_env.h"

#include <stdlib.h>
#include <string.h>

/* A name that ends with '*' is a prefix. */
static const char *const stays[] = {
	/* the host and the user there */
	"HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "HOST",
	"HOSTTYPE", "MACHTYPE", "OSTYPE", "TMPDIR", "TMP", "TEMP",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
	/* the shell */
	"PWD", "OLDPWD", "SHLVL", "_", "BASH_*", "PS1", "PS2", "PROMPT_COMMAND",
	/* the session and its terminal */
	"SSH_*", "XDG_RUNTIME_DIR", "XDG_SESSION_*", "XDG_SEAT*", "XDG_VTNR",
	"XDG_CURRENT_DESKTOP", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
	"DBUS_*", "DESKTOP_*", "SESSION_MANAGER", "INVOCATION_ID",
	"JOURNAL_STREAM", "NOTIFY_SOCKET", "LISTEN_*", "GPG_*", "KRB5CCNAME",
	"TERM", "TERM_*", "COLORTERM", "COLUMNS", "LINES", "WINDOW*", "TMUX*",
	"STY", "VTE_VERSION", "LS_COLORS", "LESSOPEN", "LESSCLOSE",
	/* a scheduler's task, or the launcher that started us */
	"SLURM_*", "SLURMD_*", "SRUN_*", "PMI_*", "PMIX_*", "OMPI_COMM_*",
	"OMPI_UNIVERSE_SIZE", "HYDI_*", "HYDRA_*", "MPI_LOCALRANKID",
	"MPI_LOCALNRANKS", "PRTE_*", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE",
	"LSB_HOSTS", "LSB_MCPU_HOSTS",
	/* a place in another framework's job */
	"TF_CONFIG", "PADDLE_TRAINER*", "PADDLE_CURRENT_ENDPOINT",
	"HOROVOD_CONTROLLER", "HOROVOD_GLOO_*",
	/* set by another ddprun for its workers */
	"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK",
	"GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE",
	"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE",
	"TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID",
	"DDP_RDZV_ENDPOINT", "DDP_JOB_ID", "DDP_ROUND", "DDP_NODE_ADDR",
	"DDP_AGENT_ID", "DDP_TERMINAL", "DDP_REMOTE_NODE",
	"DDP_RECONNECT_TIMEOUT", "DDP_WORKER_PORT", "DDP_ROLES",
	/* our own: the options of each host replace them */
	"PET_HOSTS", "PET_HOSTFILE", "PET_NNODES", "PET_NODE_RANK",
	"PET_NPROC_PER_NODE", "PET_RDZV_ENDPOINT", "PET_RDZV_ID",
	"PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_LOCAL_ADDR",
};

static int remote_env_is_named(const char *variable, const char *name)
{
	size_t n = strlen(name);

	if (name[n - 1] == '*')
		return strncmp(variable, name, n - 1) == 0;
	return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

int remote_env_travels(const char *variable)
{
	static const char gpus[] = "CUDA_VISIBLE_DEVICES=";

	for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++) {
		if (remote_env_is_named(variable, stays[i]))
			return 0;
	}
	/* numbers are valid on any host, UUIDs on one */
	if (strncmp(variable, gpus, sizeof(gpus) - 1) == 0)
		return !strstr(variable, "GPU-") && !strstr(variable, "MIG-");
	return strchr(variable, '=') != NULL && variable[0] != '=';
}

static int remote_env_has_folder(const char *path, const char *folder, size_t n)
{
	while (*path) {
		size_t len = strcspn(path, ":");

		if (len == n && memcmp(path, folder, n) == 0)
			return 1;
		path += len + (path[len] == ':');
	}
	return 0;
}

char *remote_env_path(const char *head, const char *own)
{
	char *path = malloc(strlen(head) + strlen(own) + 2), *end;

	if (!path)
		return NULL;
	end = stpcpy(path, head);
	while (*own) {
		size_t n = strcspn(own, ":");

		if (n && !remote_env_has_folder(head, own, n)) {
			if (end != path)
				*end++ = ':';
			memcpy(end, own, n);
			end += n;
			*end = '\0';
		}
		own += n + (own[n] == ':');
	}
	return path;
}

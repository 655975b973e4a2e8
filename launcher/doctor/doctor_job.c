/* doctor_job.c: what a job would be, and the variables that decide it. */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/doctor/doctor_internal.h"
#include "rendezvous/auth/auth.h"

/* ---- the job ---- */

static int doctor_job_has_key(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char path[4096];

	if (config && *config)
		snprintf(path, sizeof(path), "%s/ddprun/key", config);
	else
		snprintf(path, sizeof(path), "%s/.config/ddprun/key",
			 home ? home : "");
	return access(path, F_OK) == 0;
}

/* auth_choose makes the user's key file if it comes to that: a job may, this
 * does not. */
static void doctor_job_auth(struct buf *b, const struct doctor_options *o)
{
	struct auth a;
	struct err e = ERR_INIT;
	int is_secret = o->auth && strcmp(o->auth, "secret") == 0;

	if (!doctor_job_has_key() &&
	    (auth_wants_secret(o->auth, o->token_file) ||
	     (is_secret && !o->token_file && !getenv("DDP_TOKEN")))) {
		doctor_put(b, DOCTOR_FINE, "proof", NULL,
			   "a key file, which the first job will make");
		return;
	}
	if (auth_choose(&a, o->auth, o->token_file, &e) < 0) {
		doctor_put(b, DOCTOR_ERROR, "proof",
			   "without a common secret or munge, nodes cannot "
			   "join (ddprun(1), SECURITY)", "%s", e.text);
		return;
	}
	doctor_put(b, DOCTOR_FINE, "proof", NULL, "%s",
		   !a.methods		       ? "none: anyone may join"
		   : a.methods == WIRE_BY_MUNGE ? "munge"
						: a.from);
	auth_wipe(&a);
}

void doctor_probe_job(struct buf *b, const struct doctor_options *o)
{
	if (o->error && o->error[0]) {
		doctor_put(b, DOCTOR_ERROR, "job", "give the options that "
			   "this asks for", "%s", o->error);
		return;
	}
	doctor_put(b, DOCTOR_FINE, "started", NULL, "%s",
		   o->started && o->started[0] ? o->started
					       : "by hand: no launcher or "
						 "cloud is recognized");
	doctor_put(b, DOCTOR_FINE, "nodes", NULL, "%s", o->nnodes_text);
	doctor_put(b, DOCTOR_FINE, "workers per node", NULL, "%u%s%s%s",
		   o->nproc, o->nproc_why ? " (" : "",
		   o->nproc_why ? o->nproc_why : "", o->nproc_why ? ")" : "");
	if (o->node_rank >= 0)
		doctor_put(b, DOCTOR_FINE, "node rank", NULL, "%ld",
			   o->node_rank);
	doctor_put(b, DOCTOR_FINE, "nodes meet at", NULL, "%s", o->endpoint);
	doctor_put(b, DOCTOR_FINE, "job name", NULL, "%s", o->job);
	doctor_job_auth(b, o);
}

/* ---- variables ---- */

static const char *const prefixes[] = {
	"DDP_", "PET_", "NCCL_", "CUDA_", "TORCH", "OMP_", "MASTER_", "GLOO_",
	"UCX_", "SLURM_", "OMPI_", "PMI", "FLUX_", "PBS_", "LSB_", "SM_",
	"SKYPILOT_", "AZUREML_", "AWS_BATCH_", "KUBERNETES_", "JOB_COMPLETION_",
	"NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHON",
	"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "NODE_RANK=",
};

/* What makes a job slow, or fail, if it was forgotten. */
static const struct {
	const char *name, *value, *remedy;
} forgotten[] = {
	{"NCCL_P2P_DISABLE", "1", "GPUs of one host then exchange data through "
	 "its memory: unset it unless a bug makes you set it"},
	{"NCCL_IB_DISABLE", "1", "NCCL then uses TCP instead of InfiniBand: "
	 "unset it unless a bug makes you set it"},
	{"NCCL_SHM_DISABLE", "1", "NCCL then uses the network within a host: "
	 "unset it unless a bug makes you set it"},
	{"CUDA_LAUNCH_BLOCKING", "1", "each kernel then waits for the one "
	 "before it: unset it when you have found the bug"},
	{"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "each collective is then checked "
	 "by another one: unset it when you have found the bug"},
};

static void doctor_job_forgotten(struct buf *b)
{
	for (size_t i = 0; i < sizeof(forgotten) / sizeof(*forgotten); i++) {
		const char *value = getenv(forgotten[i].name);

		if (value && strcmp(value, forgotten[i].value) == 0)
			doctor_put(b, DOCTOR_WARNING, forgotten[i].name,
				   forgotten[i].remedy, "is %s", value);
	}
}

/* The names that NCCL and gloo take: gloo the whole name, NCCL a prefix. */
static void doctor_job_interface(struct buf *b, const char *variable,
				 int is_prefix)
{
	struct if_nameindex *names;
	const char *value = getenv(variable);
	int found = 0;

	if (!value || !*value || strpbrk(value, "^=,"))
		return;
	names = if_nameindex();
	for (struct if_nameindex *i = names; i && i->if_index; i++)
		found |= is_prefix ? strncmp(i->if_name, value, strlen(value))
					     == 0
				   : strcmp(i->if_name, value) == 0;
	if_freenameindex(names);
	if (!found)
		doctor_put(b, DOCTOR_ERROR, variable,
			   "unset it, or name one of the interfaces above; "
			   "--net-interface auto finds the right one",
			   "this host has no interface %s", value);
}

void doctor_probe_variables(struct buf *b, const struct doctor_options *o)
{
	extern char **environ;
	size_t n = sizeof(prefixes) / sizeof(*prefixes);

	for (char **v = environ; *v; v++) {
		const char *value = strchr(*v, '=');
		char name[DOCTOR_LINE_MAX];
		size_t i = 0;

		while (i < n && strncmp(*v, prefixes[i], strlen(prefixes[i])))
			i++;
		if (i == n || !value)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(value - *v), *v);
		doctor_put_variable(b, name, value + 1);
	}
	doctor_job_forgotten(b);
	doctor_job_interface(b, "NCCL_SOCKET_IFNAME", 1);
	doctor_job_interface(b, "GLOO_SOCKET_IFNAME", 0);
}

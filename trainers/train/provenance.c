/* provenance.c: collects and writes config.json. */
#include "trainers/train/provenance.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

extern char **environ;

enum { TEXT_MAX = 4096 };

/* ---- The environment ---- */

static int provenance_has_prefix(const char *text, const char *const *list)
{
	for (; *list; list++)
		if (!strncmp(text, *list, strlen(*list)))
			return 1;
	return 0;
}

int provenance_is_recorded(const char *name)
{
	static const char *const recorded[] = {
		"RANK", "LOCAL_", "WORLD_SIZE", "GROUP_", "ROLE_", "MASTER_",
		"DDP_", "PET_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_",
		"PMIX_", "OMP_", "GOMP_", "CUDA_", "NVIDIA_", "NCCL_", "DNNL_",
		"ONEDNN_", "CUDNN_", "LD_LIBRARY_PATH", "HOSTNAME", NULL,
	};
	static const char *const secret[] = {
		"TOKEN", "SECRET", "PASSW", "KEY", "CREDENTIAL", "AUTH", NULL,
	};

	for (const char *const *s = secret; *s; s++)
		if (strstr(name, *s))
			return 0;
	return provenance_has_prefix(name, recorded);
}

static cJSON *provenance_environment(void)
{
	cJSON *o = cJSON_CreateObject();

	for (char **v = environ; *v; v++) {
		size_t n = strcspn(*v, "=");
		char *name = strndup(*v, n);

		if (name && (*v)[n] && provenance_is_recorded(name))
			cJSON_AddStringToObject(o, name, *v + n + 1);
		free(name);
	}
	return o;
}

/* ---- Options ---- */

static cJSON *provenance_options(const struct trainer_options *o)
{
	cJSON *all = cJSON_CreateObject();

	for (const struct option_spec *s = trainer_option_table; s->name; s++) {
		const char *at = (const char *)o + s->offset;
		const void *field = at;

		if (s->kind == OPTION_FLAG)
			cJSON_AddBoolToObject(all, s->name,
					      *(const int *)field);
		if (s->kind == OPTION_INT)
			cJSON_AddNumberToObject(all, s->name,
						(double)*(const long *)field);
		if (s->kind == OPTION_DOUBLE)
			cJSON_AddNumberToObject(all, s->name,
						*(const double *)field);
		if (s->kind == OPTION_STRING && *(char *const *)field)
			cJSON_AddStringToObject(all, s->name,
						*(char *const *)field);
	}
	return all;
}

static cJSON *provenance_command(int argc, char **argv)
{
	cJSON *list = cJSON_CreateArray();

	for (int i = 0; i < argc; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(argv[i]));
	return list;
}

/* ---- Versions ---- */

/* Sets out to git's description of dir. Returns 0 if it has none. */
static int provenance_git_describe(const char *dir, char *out, size_t size)
{
	char *argv[] = {"git", "-C", (char *)(uintptr_t)dir, "describe",
			"--always", "--dirty", "--abbrev=12", NULL};
	posix_spawn_file_actions_t actions;
	int fd[2], status = -1, failed;
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return 0;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fd[1]);
	while (!failed && got + 1 < size &&
	       (n = read(fd[0], out + got, size - 1 - got)) > 0)
		got += (size_t)n;
	close(fd[0]);
	out[got] = 0;
	out[strcspn(out, "\n")] = 0;
	if (failed)
		return 0;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 && out[0];
}

static void provenance_add_git(cJSON *o)
{
	char program[TEXT_MAX], text[256];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

	cJSON_AddStringToObject(o, "version", DDP_VERSION);
	if (provenance_git_describe(".", text, sizeof(text)))
		cJSON_AddStringToObject(o, "git", text);
	if (n <= 0)
		return;
	program[n] = 0;
	cJSON_AddStringToObject(o, "program", program);
	if (provenance_git_describe(dirname(program), text, sizeof(text)))
		cJSON_AddStringToObject(o, "program_git", text);
}

/* ---- The file ---- */

static cJSON *provenance_collect(int argc, char **argv,
				 const struct trainer_options *o,
				 const struct provenance_fact *facts, int n)
{
	cJSON *all = cJSON_CreateObject(), *run = cJSON_CreateObject();
	char text[TEXT_MAX];
	time_t now = time(NULL);
	struct tm t;

	if (gmtime_r(&now, &t) &&
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &t))
		cJSON_AddStringToObject(all, "started", text);
	if (gethostname(text, sizeof(text) - 1) == 0)
		cJSON_AddStringToObject(all, "host", text);
	if (getcwd(text, sizeof(text)))
		cJSON_AddStringToObject(all, "folder", text);
	provenance_add_git(all);
	cJSON_AddItemToObject(all, "command", provenance_command(argc, argv));
	for (int i = 0; i < n; i++)
		cJSON_AddStringToObject(run, facts[i].name, facts[i].text);
	cJSON_AddItemToObject(all, "run", run);
	cJSON_AddItemToObject(all, "options", provenance_options(o));
	cJSON_AddItemToObject(all, "environment", provenance_environment());
	return all;
}

static int provenance_write_file(const char *path, const char *text)
{
	char *part = NULL;
	FILE *f;
	int r = 0;

	if (asprintf(&part, "%s.part", path) < 0)
		return -ENOMEM;
	f = fopen(part, "we");
	if (!f || fprintf(f, "%s\n", text) < 0)
		r = -errno;
	r = file_close_stream(f, r);
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(part);
	free(part);
	return r;
}

int provenance_write(const char *dir, uint64_t done_steps, int argc,
		     char **argv, const struct trainer_options *o,
		     const struct provenance_fact *facts, int n, struct err *e)
{
	cJSON *all = provenance_collect(argc, argv, o, facts, n);
	char *text = cJSON_Print(all), *path = NULL;
	int r;

	cJSON_Delete(all);
	if (done_steps)
		r = asprintf(&path, "%s/config.from_%llu.json", dir,
			     (unsigned long long)done_steps);
	else
		r = asprintf(&path, "%s/config.json", dir);
	if (r < 0)
		path = NULL;
	r = text && path ? provenance_write_file(path, text) : -ENOMEM;
	if (r < 0)
		err_set(e, r, "--log-dir: cannot write %s: %s",
			path ? path : dir, strerror(-r));
	free(text);
	free(path);
	return r;
}

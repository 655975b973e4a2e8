/* environment.c: building a worker's environment. */
#include "launcher/environment.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWN_MAX = 32 };

/* Never taken over from the launcher's own environment. */
static const char *const replaced[] = {
	"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK",
	"GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME",
	"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
	"DDP_RDZV_ENDPOINT", "DDP_JOB_ID", "DDP_ROUND", "DDP_NODE_ADDR",
	"DDP_AGENT_ID", "DDP_TERMINAL",
};

static int is_replaced(const char *var)
{
	size_t len = strcspn(var, "=");

	for (size_t i = 0; i < sizeof(replaced) / sizeof(*replaced); i++) {
		if (strncmp(var, replaced[i], len) == 0 &&
		    replaced[i][len] == '\0')
			return 1;
	}
	return 0;
}

static int has(char **base, const char *name)
{
	size_t len = strlen(name);

	for (; *base; base++) {
		if (strncmp(*base, name, len) == 0 && (*base)[len] == '=')
			return 1;
	}
	return 0;
}

__attribute__((format(printf, 2, 3)))
static void add(struct environment *env, const char *fmt, ...)
{
	va_list ap;
	char *var;

	if (env->owned < 0)
		return;
	va_start(ap, fmt);
	if (vasprintf(&var, fmt, ap) < 0)
		var = NULL;
	va_end(ap);
	if (var) {
		env->vars[env->owned++] = var;
		return;
	}
	environment_release(env);
	env->owned = -1;
}

static void add_torchrun(struct environment *env, char **base,
			 const struct environment_job *job)
{
	add(env, "WORLD_SIZE=%u", job->world_size);
	add(env, "LOCAL_WORLD_SIZE=%u", job->nproc);
	add(env, "GROUP_RANK=%u", job->node_rank);
	add(env, "GROUP_WORLD_SIZE=%u", job->nnodes);
	add(env, "ROLE_WORLD_SIZE=%u", job->world_size);
	add(env, "ROLE_NAME=default");
	add(env, "MASTER_ADDR=%s", job->master_addr);
	add(env, "MASTER_PORT=%u", job->master_port);
	add(env, "TORCHELASTIC_RESTART_COUNT=%u", job->attempt);
	add(env, "TORCHELASTIC_MAX_RESTARTS=%u", job->max_restarts);
	add(env, "TORCHELASTIC_RUN_ID=%s", job->job);
	add(env, "TORCHELASTIC_USE_AGENT_STORE=False");
	if (!job->error_file)
		add(env, "TORCHELASTIC_ERROR_FILE=");
	if (!has(base, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
		add(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
	if (job->nproc > 1 && !has(base, "OMP_NUM_THREADS"))
		add(env, "OMP_NUM_THREADS=1");
}

static void add_ours(struct environment *env, const struct environment_job *job)
{
	add(env, "DDP_RDZV_ENDPOINT=%s", job->rdzv);
	add(env, "DDP_JOB_ID=%s", job->job);
	add(env, "DDP_ROUND=%u", job->round);
	add(env, "DDP_NODE_ADDR=%s", job->node_addr);
	add(env, "DDP_AGENT_ID=%s", job->agent_id);
	if (job->columns > 0)
		add(env, "DDP_TERMINAL=%dx%d", job->columns, job->rows);
}

int environment_init(struct environment *env, char **base,
		     const struct environment_job *job, struct err *e)
{
	size_t inherited = 0;
	int n;

	*env = (struct environment){.owned = 0, .job = *job};
	while (base[inherited])
		inherited++;
	env->vars = calloc(inherited + OWN_MAX + ENVIRONMENT_WORKER_VARS + 2,
			   sizeof(*env->vars));
	if (!env->vars)
		return err_set(e, -ENOMEM, "out of memory");
	add_torchrun(env, base, job);
	add_ours(env, job);
	if (env->owned < 0) {
		env->owned = 0;
		return err_set(e, -ENOMEM, "out of memory");
	}
	n = env->owned;
	for (int i = 0; i < ENVIRONMENT_WORKER_VARS; i++)
		env->vars[n++] = env->worker[i];
	if (job->error_file) {
		env->error_file = malloc(PATH_MAX + 64);
		if (!env->error_file)
			return err_set(e, -ENOMEM, "out of memory");
		env->vars[n++] = env->error_file;
	}
	for (; *base; base++) {
		if (!is_replaced(*base))
			env->vars[n++] = *base;
	}
	return 0;
}

void environment_release(struct environment *env)
{
	for (int i = 0; i < env->owned; i++)
		free(env->vars[i]);
	free(env->vars);
	free(env->error_file);
	env->vars = NULL;
	env->owned = 0;
}

void environment_set_rank(struct environment *env, uint32_t rank,
			  uint32_t local_rank)
{
	snprintf(env->worker[0], ENVIRONMENT_VAR_MAX, "RANK=%u", rank);
	snprintf(env->worker[1], ENVIRONMENT_VAR_MAX, "ROLE_RANK=%u", rank);
	snprintf(env->worker[2], ENVIRONMENT_VAR_MAX, "LOCAL_RANK=%u",
		 local_rank);
	if (env->error_file) {
		char path[PATH_MAX];

		snprintf(env->error_file, PATH_MAX + 64,
			 "TORCHELASTIC_ERROR_FILE=%s",
			 env->job.error_file(env->job.error_file_arg,
					     local_rank, path));
	}
}

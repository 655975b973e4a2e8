/* environment.c: builds a worker's environment. */
#include "launcher/plan/environment.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "launcher/crash/crash_record.h"
#include "launcher/plan/framework.h"
#include "launcher/plan/gpu.h"
#include "pmi/mpirun.h"

#define ERROR_FILE "TORCHELASTIC_ERROR_FILE="
#define STEP_FILE "DDP_STEP_FILE="
#define GPUS "CUDA_VISIBLE_DEVICES="
#define RECORDER "DDP_RECORDER="
#define CRASH CRASH_VARIABLE "="
#define COORDINATOR "JAX_COORDINATOR_PORT"
#define NCCL_FILE "NCCL_DEBUG_FILE="
#define TORCH_TRACE "TORCH_FR_DUMP_TEMP_FILE"
#define TORCH_PIPE "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"

enum { OWN_MAX = 57, FRAMEWORK_TEXT_MAX = 1 << 20 };

static int environment_is_given(const char *text)
{
	return text && *text;
}

/* Never inherited from the launcher's own environment. */
static const char *const replaced[] = {
	"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK",
	"GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME",
	"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
	"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE",
	"TORCHELASTIC_SIGNALS_TO_HANDLE",
	"DDP_RDZV_ENDPOINT", "DDP_JOB_KEY", "DDP_JOB_ID", "DDP_ROUND",
	"DDP_NODE_ADDR", "DDP_AGENT_ID", "DDP_TERMINAL", "DDP_RECORDER",
	"DDP_RECONNECT_TIMEOUT", CRASH_VARIABLE, "DDP_STEP_FILE",
	"DDP_WORKER_PORT", "DDP_PEERS_FILE", "DDP_ROLES",
	/* secrets that give access to more than this job; a worker needs only
	 * DDP_JOB_KEY */
	"DDP_TOKEN", "ETCDCTL_USER", "ETCDCTL_PASSWORD",
};

static int environment_is_name(const char *var, const char *name)
{
	size_t len = strlen(name);

	return strncmp(var, name, len) == 0 && var[len] == '=';
}

/* 1 if the command line overrides the variable. */
static int environment_is_overruled(const struct environment_job *job,
				    const char *var)
{
	return (environment_is_given(job->nccl_debug) &&
		environment_is_name(var, "NCCL_DEBUG")) ||
	       (environment_is_given(job->nccl_subsystems) &&
		environment_is_name(var, "NCCL_DEBUG_SUBSYS")) ||
	       (job->crash_library &&
		(environment_is_name(var, "LD_PRELOAD") ||
		 environment_is_name(var, "ASAN_OPTIONS"))) ||
	       (job->encrypt_data &&
		environment_is_name(var, "DDP_ENCRYPT_DATA"));
}

static int environment_is_replaced(const char *var)
{
	size_t len = strcspn(var, "=");

	for (size_t i = 0; i < sizeof(replaced) / sizeof(*replaced); i++) {
		if (strncmp(var, replaced[i], len) == 0 &&
		    replaced[i][len] == '\0')
			return 1;
	}
	return 0;
}

/* From these an MPI library concludes that Slurm or Flux started the process,
 * and ends it because there is no PMI server. */
static const char *const mpi_starters[] = {
	"SLURM_STEP_ID", "SLURM_MPI_TYPE", "FLUX_JOB_ID",
};

static int environment_is_misleading(const struct environment_job *job,
				     const char *var)
{
	if (other_world_is_hidden(var, job->nproc) ||
	    framework_sets(job->frameworks, var))
		return 1;
	for (size_t i = 0;
	     job->uses_mpi && i < sizeof(mpi_starters) / sizeof(*mpi_starters);
	     i++) {
		if (environment_is_name(var, mpi_starters[i]))
			return 1;
	}
	return 0;
}

/* The value of a variable, or NULL. */
static const char *environment_get(char **base, const char *name)
{
	size_t len = strlen(name);

	for (; *base; base++) {
		if (strncmp(*base, name, len) == 0 && (*base)[len] == '=')
			return *base + len + 1;
	}
	return NULL;
}

__attribute__((format(printf, 2, 3)))
static void environment_add(struct environment *env, const char *fmt, ...)
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

int environment_has_coordinator(char **base)
{
	return environment_get(base, COORDINATOR) &&
	       !environment_get(base, "DDP_AGENT_ID");
}

/* Rank 0 of Paddle listens at MASTER_PORT, where otherwise PyTorch's store may
 * be. */
static void environment_add_torchrun(struct environment *env, char **base,
				     const struct environment_job *job)
{
	int is_paddle = (job->frameworks & FRAMEWORK_PADDLE) != 0;

	environment_add(env, "WORLD_SIZE=%u", job->world_size);
	environment_add(env, "LOCAL_WORLD_SIZE=%u", job->nproc);
	environment_add(env, "GROUP_RANK=%u", job->node_rank);
	environment_add(env, "GROUP_WORLD_SIZE=%u", job->nnodes);
	environment_add(env, "ROLE_WORLD_SIZE=%u", job->role_world_size);
	environment_add(env, "ROLE_NAME=%s", job->role);
	environment_add(env, "MASTER_ADDR=%s", job->master_addr);
	environment_add(env, "MASTER_PORT=%u",
			is_paddle ? job->coordinator_port : job->master_port);
	if (!environment_has_coordinator(base))
		environment_add(env, COORDINATOR "=%u", job->coordinator_port);
	environment_add(env, "TORCHELASTIC_RESTART_COUNT=%u", job->attempt);
	environment_add(env, "TORCHELASTIC_MAX_RESTARTS=%u", job->max_restarts);
	environment_add(env, "TORCHELASTIC_RUN_ID=%s", job->job);
	environment_add(env, "TORCHELASTIC_USE_AGENT_STORE=%s",
			job->agent_store && !is_paddle ? "True" : "False");
	environment_add(env, "TORCHELASTIC_SIGNALS_TO_HANDLE=%s", job->signals);
	if (!job->error_file)
		environment_add(env, ERROR_FILE);
	if (!environment_get(base, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
		environment_add(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
	if (job->nproc > 1 && !environment_get(base, "OMP_NUM_THREADS"))
		environment_add(env, "OMP_NUM_THREADS=1");
}

static void environment_add_ours(struct environment *env,
				 const struct environment_job *job)
{
	environment_add(env, "DDP_RDZV_ENDPOINT=%s", job->rdzv);
	environment_add(env, "DDP_JOB_ID=%s", job->job);
	if (environment_is_given(job->job_key))
		environment_add(env, "DDP_JOB_KEY=%s", job->job_key);
	environment_add(env, "DDP_ROUND=%u", job->round);
	environment_add(env, "DDP_NODE_ADDR=%s", job->node_addr);
	environment_add(env, "DDP_AGENT_ID=%s", job->agent_id);
	if (environment_is_given(job->roles))
		environment_add(env, "DDP_ROLES=%s", job->roles);
	if (job->again_ms)
		environment_add(env, "DDP_RECONNECT_TIMEOUT=%u", job->again_ms);
	if (job->encrypt_data)
		environment_add(env, "DDP_ENCRYPT_DATA=1");
	if (job->serves_pmi) {
		environment_add(env, "PMI_SIZE=%u", job->world_size);
		environment_add(env, "MPI_LOCALNRANKS=%u", job->nproc);
	}
	if (environment_is_given(job->peers_file))
		environment_add(env, "DDP_PEERS_FILE=%s", job->peers_file);
	if (job->columns > 0)
		environment_add(env, "DDP_TERMINAL=%dx%d", job->columns,
				job->rows);
}

/* A fatal signal leaves no traceback but faulthandler's, where our own library
 * does not report it with Python's frames, which is better: faulthandler's
 * handler would come before it. PyTorch's flight
 * recorder keeps that many calls (its default in later versions) and leaves a
 * file per rank after a timeout; its tools want those of all ranks side by
 * side. Older versions know it by other names, which the user may have set. */
static int environment_has_hwloc(char **base)
{
	while (*base && strncmp(*base, "HWLOC_", 6))
		base++;
	return *base != NULL;
}

static void environment_add_hwloc(struct environment *env, char **base,
				  const struct environment_job *job)
{
	if (environment_is_given(job->topology)) {
		environment_add(env, "HWLOC_XMLFILE=%s", job->topology);
		environment_add(env, "HWLOC_THISSYSTEM=1");
		environment_add(env, "HWLOC_PLUGINS_BLACKLIST=" HWLOC_PLUGINS);
	} else if (job->serves_pmix && !environment_has_hwloc(base)) {
		environment_add(env, "HWLOC_PLUGINS_BLACKLIST="
				HWLOC_PLUGINS_OF_SCREENS);
	}
}

static void environment_add_python(struct environment *env, char **base,
				   const struct environment_job *job)
{
	if (!job->is_python)
		return;
	if (!job->crash_library &&
	    !environment_get(base, "PYTHONFAULTHANDLER"))
		environment_add(env, "PYTHONFAULTHANDLER=1");
	if (!environment_get(base, "TORCH_FR_BUFFER_SIZE") &&
	    !environment_get(base, "TORCH_NCCL_TRACE_BUFFER_SIZE"))
		environment_add(env, "TORCH_FR_BUFFER_SIZE=2000");
	if (environment_is_given(job->log_dir) &&
	    !environment_get(base, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE") &&
	    !environment_get(base, TORCH_TRACE))
		environment_add(env, TORCH_TRACE "=%s/fr_trace_", job->log_dir);
	/* `ddprun dump` asks by it. PyTorch's NCCL fails where it cannot make
	 * it; its tools read all files whose names begin with fr_trace_. */
	if (environment_is_given(job->log_dir) && job->has_pipes &&
	    !environment_get(base, TORCH_PIPE))
		environment_add(env, TORCH_PIPE "=%s/torch_", job->log_dir);
}

/* The numbers that workers get are NVML's, in the order of the bus. CUDA's
 * own order has the fastest GPU first, where a host has unlike ones. */
static void environment_add_gpus(struct environment *env, char **base,
				 const struct environment_job *job)
{
	if (job->worker_gpus &&
	    !environment_get(base, "CUDA_VISIBLE_DEVICES") &&
	    !environment_get(base, "CUDA_DEVICE_ORDER"))
		environment_add(env, "CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

/* --nccl-debug LEVEL keeps the user's own NCCL_DEBUG_SUBSYS. */
static void environment_add_nccl(struct environment *env, char **base,
				 const struct environment_job *job)
{
	if (environment_is_given(job->nccl_debug))
		environment_add(env, "NCCL_DEBUG=%s", job->nccl_debug);
	if (environment_is_given(job->nccl_subsystems))
		environment_add(env, "NCCL_DEBUG_SUBSYS=%s",
				job->nccl_subsystems);
	/* NCCL reads the second '=' as: match the whole name, not a prefix */
	if (environment_is_given(job->interface) &&
	    !environment_get(base, "NCCL_SOCKET_IFNAME"))
		environment_add(env, "NCCL_SOCKET_IFNAME==%s", job->interface);
	if (environment_is_given(job->interface) &&
	    !environment_get(base, "GLOO_SOCKET_IFNAME"))
		environment_add(env, "GLOO_SOCKET_IFNAME=%s", job->interface);
}

/* 0, -ENOMEM, or an error of framework_put. */
static int environment_add_frameworks(struct environment *env, char **base,
				      struct err *e)
{
	struct buf text = BUF_INIT(FRAMEWORK_TEXT_MAX);
	int rc;

	if (!env->job.frameworks)
		return 0;
	rc = framework_put(&env->job, base, &text, e);
	for (size_t at = 0; rc == 0 && at < text.len;) {
		const char *var = (const char *)text.data + at;

		environment_add(env, "%s", var);
		at += strlen(var) + 1;
	}
	buf_release(&text);
	if (rc == 0)
		rc = framework_vars_init(&env->frameworks, &env->job, e);
	return rc;
}

/* Removes from a list of libraries those of a ddprun around this one. */
static void environment_drop_crash_libraries(char *list)
{
	char *to = list;

	for (char *from = list; *from;) {
		size_t n = strcspn(from, ": ");
		int is_one = 0;

		sscanf(from, "/proc/%*u/fd/%*u%n", &is_one);
		if (is_one != (int)n || !n) {
			memmove(to, from, n);
			to += n;
			*to = from[n];
			to += from[n] != '\0';
		}
		from += n + (from[n] != '\0');
	}
	while (to > list && (to[-1] == ':' || to[-1] == ' '))
		to--;
	*to = '\0';
}

/* Libraries that the user preloads come first: AddressSanitizer's insists on
 * it. A program linked with AddressSanitizer refuses to run behind a preloaded
 * library, unless the option tells it not to look. */
static void environment_add_crash(struct environment *env, char **base,
				  const struct environment_job *job)
{
	const char *preload = environment_get(base, "LD_PRELOAD");
	const char *asan = environment_get(base, "ASAN_OPTIONS");
	char *list;

	if (!job->crash_library)
		return;
	list = strdup(environment_is_given(preload) ? preload : "");
	if (list) /* out of memory: the next add fails as well */
		environment_drop_crash_libraries(list);
	environment_add(env, "LD_PRELOAD=%s%s%s",
			environment_is_given(list) ? list : "",
			environment_is_given(list) ? ":" : "",
			job->crash_library);
	environment_add(env, "ASAN_OPTIONS=verify_asan_link_order=0%s%s",
			environment_is_given(asan) ? ":" : "",
			environment_is_given(asan) ? asan : "");
	free(list);
}

/* NCCL expands %h and %p in the file's name, and %% to %. */
static int environment_make_nccl_file(struct environment *env, char **base)
{
	const struct environment_job *job = &env->job;
	char *to;

	if (!environment_is_given(job->nccl_debug) ||
	    !environment_is_given(job->log_dir) ||
	    environment_get(base, "NCCL_DEBUG_FILE"))
		return 0;
	env->nccl_file = malloc(sizeof(NCCL_FILE) + 2 * strlen(job->log_dir) +
				ENVIRONMENT_VAR_MAX);
	if (!env->nccl_file)
		return -ENOMEM;
	to = stpcpy(env->nccl_file, NCCL_FILE);
	for (const char *from = job->log_dir; *from; from++) {
		*to++ = *from;
		if (*from == '%')
			*to++ = '%';
	}
	*to = '\0';
	env->nccl_folder = (size_t)(to - env->nccl_file);
	return 0;
}

/* Allocates the per-worker variables that are longer than a number. */
static int environment_make_room(struct environment *env, char **base)
{
	const struct environment_job *job = &env->job;
	size_t room;

	const char *off = environment_get(base, "DDP_RECORDER");

	/* the user turned it off for all workers */
	if (off && strcmp(off, "off") == 0) {
		env->job.recorder = NULL;
		strcpy(env->recorder, RECORDER "off");
	} else if (job->recorder) {
		strcpy(env->recorder, RECORDER);
	}
	if (job->crash_library)
		strcpy(env->crash, CRASH);
	if (job->error_file) {
		env->error_file = malloc(sizeof(ERROR_FILE) + PATH_MAX);
		if (!env->error_file)
			return -ENOMEM;
		strcpy(env->error_file, ERROR_FILE);
	}
	if (job->step_file) {
		env->step_file = malloc(sizeof(STEP_FILE) + PATH_MAX);
		if (!env->step_file)
			return -ENOMEM;
		strcpy(env->step_file, STEP_FILE);
	}
	if (job->worker_gpus) {
		env->visible = environment_get(base, "CUDA_VISIBLE_DEVICES");
		room = gpu_list_room(env->visible, job->worker_gpus);
		env->gpus = malloc(sizeof(GPUS) + room);
		if (!env->gpus)
			return -ENOMEM;
		strcpy(env->gpus, GPUS);
	}
	return environment_make_nccl_file(env, base);
}

static void environment_put_worker(struct environment *env, int *n)
{
	const struct environment_job *job = &env->job;
	char *const vars[ENVIRONMENT_WORKER_VARS] = {
		env->rank, env->role_rank, env->local_rank, env->error_file,
		env->gpus, env->recorder[0] ? env->recorder : NULL,
		env->nccl_file, env->crash[0] ? env->crash : NULL,
		env->step_file,
		job->serves_pmi ? env->pmi_rank : NULL,
		job->serves_pmi ? env->mpi_local_rank : NULL,
		job->serves_pmi && job->pmi_fd ? env->pmi_fd : NULL,
		job->ports ? env->port : NULL,
	};

	for (int i = 0; i < ENVIRONMENT_WORKER_VARS; i++) {
		if (vars[i])
			env->vars[(*n)++] = vars[i];
	}
	for (int i = 0; i < env->frameworks.n; i++)
		env->vars[(*n)++] = env->frameworks.vars[i];
}

static int environment_is_gpus(const char *var)
{
	return strncmp(var, GPUS, sizeof(GPUS) - 1) == 0;
}

int environment_init(struct environment *env, char **base,
		     const struct environment_job *job, struct err *e)
{
	int has_coordinator = environment_has_coordinator(base);
	size_t inherited = 0;
	uint32_t npmix = 0;
	int n, rc;

	*env = (struct environment){.job = *job};
	while (base[inherited])
		inherited++;
	if (job->serves_pmix && job->pmix_vars)
		job->pmix_vars(job->mpi_arg, 0, &npmix);
	env->vars = calloc(inherited + OWN_MAX + ENVIRONMENT_WORKER_VARS +
			   FRAMEWORK_VARS_MAX + npmix + 1, sizeof(*env->vars));
	if (env->vars) {
		environment_add_torchrun(env, base, job);
		environment_add_ours(env, job);
		environment_add_hwloc(env, base, job);
		environment_add_python(env, base, job);
		environment_add_gpus(env, base, job);
		environment_add_nccl(env, base, job);
		environment_add_crash(env, base, job);
	}
	if (!env->vars || env->owned < 0 ||
	    environment_make_room(env, base) < 0) {
		if (env->owned >= 0)
			environment_release(env);
		return err_no_memory(e, "a worker's environment");
	}
	rc = environment_add_frameworks(env, base, e);
	if (rc < 0 || env->owned < 0) {
		if (env->owned >= 0)
			environment_release(env);
		return rc < 0 ? rc : err_no_memory(e, "a worker's environment");
	}
	n = env->owned;
	environment_put_worker(env, &n);
	if (npmix)
		env->pmix = &env->vars[n];
	n += (int)npmix;
	for (; *base; base++) {
		if (!environment_is_replaced(*base) &&
		    !environment_is_overruled(job, *base) &&
		    !mpirun_is_rank_variable(*base) &&
		    !environment_is_misleading(job, *base) &&
		    (has_coordinator ||
		     !environment_is_name(*base, COORDINATOR)) &&
		    !(env->gpus && environment_is_gpus(*base)))
			env->vars[n++] = *base;
	}
	return 0;
}

void environment_release(struct environment *env)
{
	for (int i = 0; env->vars && i < env->owned; i++)
		free(env->vars[i]);
	free(env->vars);
	free(env->error_file);
	free(env->step_file);
	free(env->gpus);
	free(env->nccl_file);
	framework_vars_release(&env->frameworks);
	*env = (struct environment){NULL};
}

static void environment_set_error_file(struct environment *env,
				       uint32_t local_rank)
{
	char *value = env->error_file + sizeof(ERROR_FILE) - 1;
	const char *path = env->job.error_file(env->job.error_file_arg,
					       local_rank, value);

	if (path != value)
		snprintf(value, PATH_MAX, "%s", path);
}

static void environment_set_pmi(struct environment *env, uint32_t rank,
				uint32_t local_rank)
{
	const struct environment_job *job = &env->job;

	snprintf(env->pmi_rank, sizeof(env->pmi_rank), "PMI_RANK=%u", rank);
	snprintf(env->mpi_local_rank, sizeof(env->mpi_local_rank),
		 "MPI_LOCALRANKID=%u", local_rank);
	if (job->pmi_fd)
		snprintf(env->pmi_fd, sizeof(env->pmi_fd), "PMI_FD=%d",
			 job->pmi_fd(job->mpi_arg, local_rank));
}

static void environment_set_pmix(struct environment *env, uint32_t local_rank)
{
	uint32_t n;
	char *const *vars = env->job.pmix_vars(env->job.mpi_arg, local_rank,
					       &n);

	memcpy(env->pmix, vars, n * sizeof(*vars));
}

void environment_set_rank(struct environment *env, uint32_t rank,
			  uint32_t local_rank)
{
	const struct environment_job *job = &env->job;

	snprintf(env->rank, sizeof(env->rank), "RANK=%u", rank);
	snprintf(env->role_rank, sizeof(env->role_rank), "ROLE_RANK=%u",
		 job->role_base_rank + local_rank);
	snprintf(env->local_rank, sizeof(env->local_rank), "LOCAL_RANK=%u",
		 job->virtual_local_rank ? 0 : local_rank);
	if (job->ports)
		snprintf(env->port, sizeof(env->port), "DDP_WORKER_PORT=%u",
			 job->ports[local_rank]);
	if (job->recorder)
		snprintf(env->recorder, sizeof(env->recorder), RECORDER "%s:%u",
			 job->recorder, local_rank);
	if (job->crash_library)
		snprintf(env->crash, sizeof(env->crash), CRASH "%s:%u",
			 job->crash_records, local_rank);
	if (env->nccl_file)
		snprintf(env->nccl_file + env->nccl_folder,
			 ENVIRONMENT_VAR_MAX, "/%u/nccl.log", local_rank);
	framework_vars_set(&env->frameworks, job, rank, local_rank);
	if (job->serves_pmi)
		environment_set_pmi(env, rank, local_rank);
	if (env->pmix)
		environment_set_pmix(env, local_rank);
	if (env->error_file)
		environment_set_error_file(env, local_rank);
	if (env->step_file)
		job->step_file(job->step_file_arg, local_rank,
			       env->step_file + sizeof(STEP_FILE) - 1);
	if (env->gpus)
		gpu_list_share(env->visible,
			       job->first_gpus ? job->first_gpus[local_rank]
					       : local_rank * job->worker_gpus,
			       job->worker_gpus,
			       env->gpus + sizeof(GPUS) - 1);
}

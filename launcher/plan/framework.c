/* framework.c: the names and values of the frameworks' variables. JAX reads its
 * place only from Slurm's variables, Open MPI's or Kubernetes'
 * (jax/_src/clusters), TensorFlow from TF_CONFIG, Paddle from its launcher's
 * variables, but it prefers MASTER_ADDR:MASTER_PORT to the address there
 * (paddle/distributed/parallel.py). */
#include "launcher/plan/framework.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sock.h"
#include "launcher/plan/environment.h"

/* The kernel's limit for one string of an environment, MAX_ARG_STRLEN. */
enum { STRING_MAX = 128 << 10, VAR_MAX = 64 };

#define ENDPOINTS "PADDLE_TRAINER_ENDPOINTS="
#define ENDPOINT "PADDLE_CURRENT_ENDPOINT="

static const struct {
	const char *name;
	unsigned bit;
} frameworks[] = {
	{"jax", FRAMEWORK_JAX},
	{"tf", FRAMEWORK_TF},
	{"paddle", FRAMEWORK_PADDLE},
};
enum { NFRAMEWORKS = sizeof(frameworks) / sizeof(*frameworks) };

/* All that replace an inherited variable. */
static const struct {
	const char *name;
	unsigned bit;
	/* when a run knows it first; READY: so does a dry run */
	enum { READY, RANKS, LATER } known;
} variables[] = {
	{"SLURM_STEP_NODELIST", FRAMEWORK_JAX, LATER},
	{"SLURM_NTASKS", FRAMEWORK_JAX, RANKS},
	{"SLURM_PROCID", FRAMEWORK_JAX, RANKS},
	{"SLURM_LOCALID", FRAMEWORK_JAX, READY},
	{"TF_CONFIG", FRAMEWORK_TF, LATER},
	{"PADDLE_TRAINER_ID", FRAMEWORK_PADDLE, RANKS},
	{"PADDLE_TRAINERS_NUM", FRAMEWORK_PADDLE, RANKS},
	{"PADDLE_TRAINER_ENDPOINTS", FRAMEWORK_PADDLE, LATER},
	{"PADDLE_CURRENT_ENDPOINT", FRAMEWORK_PADDLE, LATER},
	{"PADDLE_RANK_IN_NODE", FRAMEWORK_PADDLE, READY},
	{"PADDLE_LOCAL_SIZE", FRAMEWORK_PADDLE, READY},
};
enum { NVARIABLES = sizeof(variables) / sizeof(*variables) };
static_assert((int)NVARIABLES < (int)FRAMEWORK_LATER_MAX,
	      "a place for each, and for SLURM_JOB_ID");

static unsigned framework_bit(const char *name, size_t len)
{
	for (int i = 0; i < NFRAMEWORKS; i++) {
		if (strlen(frameworks[i].name) == len &&
		    memcmp(frameworks[i].name, name, len) == 0)
			return frameworks[i].bit;
	}
	return 0;
}

int framework_parse(const char *text, unsigned *set, struct err *e)
{
	*set = 0;
	while (text) {
		size_t len = strcspn(text, ",");
		unsigned bit = framework_bit(text, len);

		if (!bit)
			return err_set(e, ERR_USAGE,
				       "--env '%.*s': give jax, "
				       "tf or paddle, or several with commas",
				       (int)len, text);
		*set |= bit;
		text = text[len] ? text + len + 1 : NULL;
	}
	return 0;
}

void framework_put_names(unsigned set, struct buf *out)
{
	const char *comma = "";

	for (int i = 0; i < NFRAMEWORKS; i++) {
		if (!(set & frameworks[i].bit))
			continue;
		buf_printf(out, "%s%s", comma, frameworks[i].name);
		comma = ",";
	}
}

int framework_needs_peers(unsigned set)
{
	return (set & (FRAMEWORK_TF | FRAMEWORK_PADDLE)) != 0;
}

int framework_sets(unsigned set, const char *var)
{
	size_t len = strcspn(var, "=");

	for (int i = 0; i < NVARIABLES; i++) {
		if ((variables[i].bit & set) &&
		    strlen(variables[i].name) == len &&
		    memcmp(variables[i].name, var, len) == 0)
			return 1;
	}
	return 0;
}

int framework_later(unsigned set, int is_alone, int has_job_id,
		    const char **names)
{
	int n = 0;

	if ((set & FRAMEWORK_JAX) && !has_job_id)
		names[n++] = "SLURM_JOB_ID";
	for (int i = 0; i < NVARIABLES; i++) {
		if ((variables[i].bit & set) &&
		    (variables[i].known == LATER ||
		     (variables[i].known == RANKS && !is_alone)))
			names[n++] = variables[i].name;
	}
	return n;
}

/* ---- the same for all workers ---- */

static int framework_has(char **base, const char *name)
{
	size_t len = strlen(name);

	for (; *base; base++) {
		if (strncmp(*base, name, len) == 0 && (*base)[len] == '=')
			return 1;
	}
	return 0;
}

/* JAX gives a process the device of its local rank. If it
 * sees only its own GPUs, it takes all of them. */
static void framework_put_jax(const struct environment_job *job, char **base,
			      struct buf *out)
{
	if (!framework_has(base, "SLURM_JOB_ID"))
		buf_printf(out, "SLURM_JOB_ID=%u%c", job->round, 0);
	buf_printf(out, "SLURM_STEP_NODELIST=%s%c", job->master_addr, 0);
	buf_printf(out, "SLURM_NTASKS=%u%c", job->world_size, 0);
	if (job->worker_gpus && !framework_has(base, "JAX_LOCAL_DEVICE_IDS")) {
		buf_printf(out, "JAX_LOCAL_DEVICE_IDS=0");
		for (uint32_t i = 1; i < job->worker_gpus; i++)
			buf_printf(out, ",%u", i);
		buf_printf(out, "%c", 0);
	}
	/* the service swallows SIGTERM: each restart would take all of
	 * --shutdown-timeout */
	if (job->max_restarts &&
	    !framework_has(base, "JAX_ENABLE_PREEMPTION_SERVICE"))
		buf_printf(out, "JAX_ENABLE_PREEMPTION_SERVICE=false%c", 0);
}

static void framework_put_paddle(const struct environment_job *job, char **base,
				 struct buf *out)
{
	buf_printf(out, "PADDLE_TRAINERS_NUM=%u%c", job->world_size, 0);
	buf_printf(out, ENDPOINTS "%s%c", job->peers, 0);
	buf_printf(out, "PADDLE_LOCAL_SIZE=%u%c", job->nproc, 0);
	if (!job->has_gpus && !framework_has(base, "PADDLE_DISTRI_BACKEND"))
		buf_printf(out, "PADDLE_DISTRI_BACKEND=gloo%c", 0);
}

static int framework_check_length(const char *name, size_t len,
				  const struct environment_job *job,
				  struct err *e)
{
	if (len < STRING_MAX)
		return 0;
	return err_set(e, ERR_USAGE,
		       "--env: %s with the addresses of %u "
		       "workers has %zu bytes, and Linux passes at most %d to "
		       "a program: use fewer workers, or leave --env out",
		       name, job->world_size, len, STRING_MAX - 1);
}

int framework_put(const struct environment_job *job, char **base,
		  struct buf *out, struct err *e)
{
	int rc = 0;

	if (job->frameworks & FRAMEWORK_JAX)
		framework_put_jax(job, base, out);
	if (job->frameworks & FRAMEWORK_PADDLE) {
		framework_put_paddle(job, base, out);
		rc = framework_check_length(
			"PADDLE_TRAINER_ENDPOINTS",
			strlen(ENDPOINTS) + strlen(job->peers), job, e);
	}
	if (rc == 0 && out->failed)
		rc = err_no_memory(e, "the variables of --env");
	return rc;
}

/* ---- of one worker ---- */

/* In the order of framework_vars_set. */
static void framework_vars_add(struct framework_vars *v, size_t room)
{
	v->vars[v->n] = calloc(1, room);
	v->n++;
}

/* The addresses in quotes, and a place for the index. */
static char *framework_make_tf(const char *peers, size_t *index)
{
	size_t room = 2 * VAR_MAX;
	char *text, *to;

	for (const char *p = peers; *p; p++)
		room += *p == ',' ? 3 : 1;
	text = malloc(room);
	if (!text)
		return NULL;
	to = stpcpy(text, "TF_CONFIG={\"cluster\":{\"worker\":[\"");
	for (const char *p = peers; *p; p++) {
		if (*p == ',')
			to = stpcpy(to, "\",\"");
		else
			*to++ = *p;
	}
	to = stpcpy(to, "\"]},\"task\":{\"type\":\"worker\",\"index\":");
	*index = (size_t)(to - text);
	return text;
}

int framework_vars_init(struct framework_vars *v,
			const struct environment_job *job, struct err *e)
{
	int rc = 0;

	*v = (struct framework_vars){.n = 0};
	if (job->frameworks & FRAMEWORK_JAX) {
		framework_vars_add(v, VAR_MAX);
		framework_vars_add(v, VAR_MAX);
	}
	if (job->frameworks & FRAMEWORK_TF)
		v->vars[v->n++] = framework_make_tf(job->peers, &v->tf_index);
	if (job->frameworks & FRAMEWORK_PADDLE) {
		framework_vars_add(v, VAR_MAX);
		framework_vars_add(v, VAR_MAX);
		framework_vars_add(v, VAR_MAX + SOCK_TEXT_MAX);
	}
	for (int i = 0; i < v->n && rc == 0; i++) {
		if (!v->vars[i])
			rc = err_no_memory(e, "the variables of --env");
	}
	if (rc == 0 && (job->frameworks & FRAMEWORK_TF))
		rc = framework_check_length(
			"TF_CONFIG", v->tf_index + sizeof("65535}}"), job, e);
	if (rc < 0)
		framework_vars_release(v);
	return rc;
}

void framework_vars_release(struct framework_vars *v)
{
	for (int i = 0; i < v->n; i++)
		free(v->vars[i]);
	*v = (struct framework_vars){.n = 0};
}

/* The address of a rank in the list, "" if there is none (a dry run). */
static int framework_peer(const char *peers, uint32_t rank, const char **at)
{
	for (; rank && *peers; rank--) {
		peers += strcspn(peers, ",");
		peers += *peers == ',';
	}
	*at = peers;
	return (int)strcspn(peers, ",");
}

void framework_vars_set(struct framework_vars *v,
			const struct environment_job *job, uint32_t rank,
			uint32_t local_rank)
{
	char **var = v->vars;
	const char *at;
	int len;

	if (job->frameworks & FRAMEWORK_JAX) {
		snprintf(*var++, VAR_MAX, "SLURM_PROCID=%u", rank);
		snprintf(*var++, VAR_MAX, "SLURM_LOCALID=%u",
			 job->virtual_local_rank ? 0 : local_rank);
	}
	if (job->frameworks & FRAMEWORK_TF)
		snprintf(*var++ + v->tf_index, VAR_MAX, "%u}}", rank);
	if (job->frameworks & FRAMEWORK_PADDLE) {
		snprintf(*var++, VAR_MAX, "PADDLE_TRAINER_ID=%u", rank);
		snprintf(*var++, VAR_MAX, "PADDLE_RANK_IN_NODE=%u", local_rank);
		len = framework_peer(job->peers, rank, &at);
		snprintf(*var, VAR_MAX + SOCK_TEXT_MAX, ENDPOINT "%.*s", len,
			 at);
	}
}

/* ---- the variables of other worlds ---- */

/* A name that ends with '_' matches every name that begins with it. */
static const char *const names[] = {
	"TF_CONFIG", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM",
	"PADDLE_TRAINER_ENDPOINTS", "PADDLE_CURRENT_ENDPOINT",
	"HOROVOD_CONTROLLER", "HOROVOD_GLOO_",
};

static int other_world_is_listed(const char *var)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t len = strlen(names[i]);

		if (strncmp(var, names[i], len) == 0 &&
		    (names[i][len - 1] == '_' || var[len] == '='))
			return 1;
	}
	return 0;
}

int other_world_is_hidden(const char *var, uint32_t nproc)
{
	return nproc > 1 && other_world_is_listed(var);
}

/* Writes the names, with commas; returns how many there are. */
static int other_world_put_names(char *const *vars, unsigned set,
				 char *out, size_t size)
{
	size_t n = 0;
	int count = 0;

	*out = '\0';
	for (; *vars; vars++) {
		if (!other_world_is_listed(*vars) ||
		    framework_sets(set, *vars))
			continue;
		if (n < size)
			n += (size_t)snprintf(out + n, size - n, "%s%.*s",
					      count ? ", " : "",
					      (int)strcspn(*vars, "="), *vars);
		count++;
	}
	return count;
}

const char *other_world_text(char *const *vars, unsigned set,
			     uint32_t nproc, uint32_t world_size, char *out)
{
	char list[256];
	int n = other_world_put_names(vars, set, list, sizeof(list));

	if (!n || world_size <= 1)
		return NULL;
	if (nproc > 1)
		snprintf(out, OTHER_WORLD_TEXT_MAX,
			 "%s %s not passed on to the workers: all %u of this "
			 "node would take the same place in another job; let "
			 "each worker set its own (docs/environment.txt)",
			 list, n == 1 ? "is" : "are", nproc);
	else
		snprintf(out, OTHER_WORLD_TEXT_MAX,
			 "%s %s passed on to the workers, because this node "
			 "has only one: unset %s of another job "
			 "(docs/environment.txt)", list,
			 n == 1 ? "is" : "are",
			 n == 1 ? "it if it is" : "them if they are");
	return out;
}

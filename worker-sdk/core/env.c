/* env.c: reads the launcher's environment variables and reports each
 * inconsistency as an error. */
#include "worker-sdk/core/env.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"
#include "slurm/step.h"

enum { DEFAULT_TIMEOUT_MS = 1800000, RANKS_MAX = 1 << 24, NAMES = 9 };

/* One launcher's variable names; NULL: it has no such variable. */
struct names {
	const char *starter; /* the launcher's name in error texts */
	const char *advice;  /* "start this program with ..." */
	const char *marks[3]; /* if one of these is set, this is the launcher */
	const char *needed[NAMES + 1];
	const char *rank, *world_size, *local_rank, *local_world_size;
	const char *node_rank, *nodes;
};

static const struct names names[DDP__STARTERS] = {
	[DDP__NOBODY] = {.starter = "nobody"},
	[DDP__DDPRUN] = {
		.starter = "ddprun",
		.advice = "ddprun",
		.marks = {"DDP_RDZV_ENDPOINT", "DDP_JOB_ID", "DDP_ROUND"},
		.needed = {"RANK", "WORLD_SIZE", "LOCAL_RANK",
			   "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
			   "DDP_RDZV_ENDPOINT", "DDP_JOB_ID", "DDP_ROUND"},
		.rank = "RANK", .world_size = "WORLD_SIZE",
		.local_rank = "LOCAL_RANK",
		.local_world_size = "LOCAL_WORLD_SIZE",
		.node_rank = "GROUP_RANK", .nodes = "GROUP_WORLD_SIZE"},
	[DDP__TORCHRUN] = {
		.starter = "torchrun",
		.advice = "ddprun or torchrun",
		.marks = {"RANK"},
		.needed = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
		.rank = "RANK", .world_size = "WORLD_SIZE",
		.local_rank = "LOCAL_RANK",
		.local_world_size = "LOCAL_WORLD_SIZE",
		.node_rank = "GROUP_RANK", .nodes = "GROUP_WORLD_SIZE"},
	[DDP__OPENMPI] = {
		.starter = "OpenMPI's mpirun",
		.advice = "mpirun",
		.marks = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		.needed = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
			   "OMPI_COMM_WORLD_LOCAL_RANK",
			   "OMPI_COMM_WORLD_LOCAL_SIZE"},
		.rank = "OMPI_COMM_WORLD_RANK",
		.world_size = "OMPI_COMM_WORLD_SIZE",
		.local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
		.local_world_size = "OMPI_COMM_WORLD_LOCAL_SIZE"},
	[DDP__PMIX] = {
		.starter = "a PMIx launcher",
		.advice = "srun --mpi=pmix or prterun",
		.marks = {"PMIX_RANK"},
		.needed = {"PMIX_RANK", "PMIX_NAMESPACE"},
		.rank = "PMIX_RANK"},
	[DDP__PMI] = {
		.starter = "a PMI launcher (mpiexec, srun --mpi=pmi2)",
		.advice = "mpiexec or srun --mpi=pmi2",
		.marks = {"PMI_RANK", "PMI_SIZE"},
		.needed = {"PMI_RANK", "PMI_SIZE", "PMI_FD"},
		.rank = "PMI_RANK", .world_size = "PMI_SIZE",
		.local_rank = "MPI_LOCALRANKID",
		.local_world_size = "MPI_LOCALNRANKS"},
	[DDP__SLURM] = {
		.starter = "srun",
		.advice = "srun",
		.needed = {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
			   "SLURM_LOCALID", "SLURM_NODEID",
			   "SLURM_STEP_NUM_NODES", "SLURM_STEP_NODELIST",
			   "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_ID",
			   "SLURM_STEP_ID"},
		.rank = "SLURM_PROCID", .world_size = "SLURM_STEP_NUM_TASKS",
		.local_rank = "SLURM_LOCALID", .node_rank = "SLURM_NODEID",
		.nodes = "SLURM_STEP_NUM_NODES"},
};

/* The variable's value; NULL: unset or empty. */
static const char *env_get(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && value[0] ? value : NULL;
}

static int env_get_int(const char *name, long min, long max, int *out,
		       struct err *e)
{
	const char *text = env_get(name);
	long value = *out;
	int rc = text ? parse_long(text, min, max, name, &value, e) : 0;

	if (rc)
		return rc;
	*out = (int)value;
	return 0;
}

static int env_has_marker(const struct names *n)
{
	for (size_t i = 0; i < sizeof(n->marks) / sizeof(*n->marks); i++)
		if (env_get(n->marks[i]))
			return 1;
	return 0;
}

/* A step with one task, a batch script and the shell of an allocation have
 * SLURM_PROCID too, but form no world. */
static int env_is_step(void)
{
	const char *tasks = env_get("SLURM_STEP_NUM_TASKS");

	return env_get("SLURM_STEP_ID") && tasks && strcmp(tasks, "1");
}

/* Finds a variable that torchrun sets, or that a batch script may set for the
 * processes it starts. If no known launcher started us, such a variable alone
 * is an incomplete environment. */
static const char *env_find_incomplete(void)
{
	static const char *const halves[] = {
		"WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
		"GROUP_WORLD_SIZE"};

	for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++)
		if (env_get(halves[i]))
			return halves[i];
	return NULL;
}

static enum ddp__starter env_find_starter(void)
{
	for (int i = DDP__DDPRUN; i < DDP__SLURM; i++)
		if (env_has_marker(&names[i]))
			return i;
	if (env_is_step())
		return DDP__SLURM;
	return env_find_incomplete() ? DDP__TORCHRUN : DDP__NOBODY;
}

/* Finds, among the variables that must be set together, a variable that is set
 * and another that is missing. */
static int env_check_needed(const struct names *n, struct err *e)
{
	const char *there = NULL, *missing = NULL;

	for (int i = 0; n->needed[i]; i++) {
		if (env_get(n->needed[i])) {
			if (!there)
				there = n->needed[i];
		} else if (!missing) {
			missing = n->needed[i];
		}
	}
	if (!there)
		there = env_find_incomplete();
	if (!missing)
		return 0;
	return err_set(e, ERR_USAGE,
		       "%s is set but %s is not: start this program with %s, "
		       "or unset %s to run alone",
		       there, missing, n->advice, there);
}

/* Checks that x is less than y, if both are known. */
static int env_check_below(const struct names *n, const char *a, int x,
			   const char *b, int y, struct err *e)
{
	if (x < 0 || y < 0 || x < y)
		return 0;
	return err_set(e, ERR_USAGE,
		       "%s is %d but %s is %d: it must be less; start this "
		       "program with %s, which sets both",
		       a, x, b, y, n->advice);
}

static int env_read_numbers(struct ddp__env *v, const struct names *n,
			    struct err *e)
{
	int rc;

	if ((rc = env_get_int(n->rank, 0, RANKS_MAX, &v->rank, e)) ||
	    (rc = env_get_int(n->world_size, 1, RANKS_MAX, &v->world_size,
			      e)) ||
	    (rc = env_get_int(n->local_rank, 0, RANKS_MAX, &v->local_rank,
			      e)) ||
	    (rc = env_get_int(n->local_world_size, 1, RANKS_MAX,
			      &v->local_world_size, e)) ||
	    (rc = env_get_int(n->node_rank, 0, RANKS_MAX, &v->node_rank, e)) ||
	    (rc = env_get_int(n->nodes, 1, RANKS_MAX, &v->nodes, e)) ||
	    (rc = env_check_below(n, n->rank, v->rank, n->world_size,
				  v->world_size, e)) ||
	    (rc = env_check_below(n, n->local_rank, v->local_rank,
				  n->local_world_size, v->local_world_size,
				  e)) ||
	    (rc = env_check_below(n, n->node_rank, v->node_rank, n->nodes,
				  v->nodes, e)))
		return rc;
	if (v->local_world_size > v->world_size && v->world_size > 0)
		return err_set(e, ERR_USAGE,
			       "%s is %d but %s is %d: it must not be more; "
			       "start this program with %s, which sets both",
			       n->local_world_size, v->local_world_size,
			       n->world_size, v->world_size, n->advice);
	return 0;
}

static int env_read_endpoint(struct ddp__env *v, const char *name,
			     struct err *e)
{
	int rc = endpoint_parse(&v->server, env_get(name), 29400, e);
	struct err why = *e;

	return rc ? err_set(e, rc, "%s: %.900s", name, why.text) : 0;
}

static int env_read_ddprun(struct ddp__env *v, struct err *e)
{
	int round = 0, rc = env_get_int("DDP_ROUND", 0, INT_MAX, &round, e);

	if (!rc)
		rc = env_get_int("DDP_RECONNECT_TIMEOUT", 0, INT_MAX,
				 &v->again_ms, e);
	if (!rc)
		rc = env_get_int("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX,
				 &v->attempt, e);
	v->round = (uint32_t)round;
	v->job = env_get("DDP_JOB_ID");
	v->job_key = env_get("DDP_JOB_KEY");
	return rc ? rc : env_read_endpoint(v, "DDP_RDZV_ENDPOINT", e);
}

static int env_read_torchrun(struct ddp__env *v, struct err *e)
{
	const char *agent = env_get("TORCHELASTIC_USE_AGENT_STORE");
	int port = 0, rc = env_read_endpoint(v, "MASTER_ADDR", e);

	if (!rc)
		rc = env_get_int("MASTER_PORT", 1, 65535, &port, e);
	if (!rc)
		rc = env_get_int("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX,
				 &v->attempt, e);
	v->server.port = (uint16_t)port;
	v->agent_store = agent && !strcmp(agent, "True");
	v->job = env_get("TORCHELASTIC_RUN_ID");
	return rc;
}

/* In a step of a heterogeneous job that list is sorted by the nodes' names, but
 * SLURM_NODEID follows the groups. There we count the tasks of our own node,
 * which SLURM_GTIDS lists ("2,3"). */
static int env_tasks_here(long node_rank, long *tasks, struct err *e)
{
	const char *ids = env_get("SLURM_GTIDS");

	if (!env_get("SLURM_HET_SIZE") || !ids)
		return step_tasks_on(
			env_get("SLURM_STEP_TASKS_PER_NODE"), node_rank,
			tasks, e);
	for (*tasks = 1; (ids = strchr(ids, ',')) != NULL; ids++)
		(*tasks)++;
	return 0;
}

static int env_read_step(struct ddp__env *v, struct err *e)
{
	long tasks = 0;
	int rc = env_tasks_here(v->node_rank, &tasks, e);

	v->local_world_size = (int)tasks;
	return rc ? rc : env_check_below(&names[DDP__SLURM], "SLURM_LOCALID",
					 v->local_rank,
					 "the node's part of "
					 "SLURM_STEP_TASKS_PER_NODE",
					 v->local_world_size, e);
}

/* srun --mpi=pmi2 gives the remaining values in Slurm's variables. A Hydra
 * mpiexec inside a step inherits the step's variables as well, but its ranks
 * differ. */
static int env_read_pmi(struct ddp__env *v, struct err *e)
{
	struct ddp__env step = *v;
	const struct names *n = &names[DDP__SLURM];
	int rc;

	if (v->local_rank >= 0 || !env_is_step())
		return 0;
	for (int i = 0; n->needed[i]; i++)
		if (!env_get(n->needed[i]))
			return 0;
	rc = env_read_numbers(&step, n, e);
	if (rc || step.rank != v->rank || step.world_size != v->world_size)
		return rc;
	*v = step;
	return env_read_step(v, e);
}

/* horovodrun's gloo controller uses a rendezvous of Horovod's own kind. Without
 * this check each process would silently be a world of one. */
static int env_check_horovod(struct err *e)
{
	const char *size = env_get("HOROVOD_SIZE");

	if (!env_get("HOROVOD_RANK") || !size || strcmp(size, "1") == 0)
		return 0;
	return err_set(e, ERR_USAGE,
		       "HOROVOD_SIZE is %.20s, but no MPI launcher's variables "
		       "are set: start this program with horovodrun --mpi, "
		       "mpirun or ddprun, or unset HOROVOD_RANK to run alone",
		       size);
}

int ddp__env_read(struct ddp__env *env, struct err *e)
{
	const struct names *n;
	int rc;

	memset(env, 0, sizeof(*env));
	env->starter = env_find_starter();
	env->alone = env->starter == DDP__NOBODY;
	env->world_size = env->local_world_size = env->nodes = 1;
	if (env->alone)
		return env_check_horovod(e);
	n = &names[env->starter];
	env->rank = env->world_size = -1;
	env->local_rank = env->local_world_size = -1;
	env->node_rank = env->nodes = -1;
	rc = env_check_needed(n, e);
	if (!rc)
		rc = env_read_numbers(env, n, e);
	if (!rc && env->starter == DDP__DDPRUN)
		rc = env_read_ddprun(env, e);
	if (!rc && env->starter == DDP__TORCHRUN)
		rc = env_read_torchrun(env, e);
	if (!rc && env->starter == DDP__PMI)
		rc = env_read_pmi(env, e);
	if (!rc && env->starter == DDP__SLURM)
		rc = env_read_step(env, e);
	if (rc)
		return rc;
	env->node_addr = env_get("DDP_NODE_ADDR");
	/* a world of one */
	if (env->starter != DDP__DDPRUN && env->world_size == 1)
		env->alone = 1;
	if (env->alone) {
		env->local_rank = 0;
		env->local_world_size = 1;
	}
	if (env->local_world_size == env->world_size && env->nodes < 0) {
		env->node_rank = 0;
		env->nodes = 1;
	}
	return 0;
}

const char *ddp__env_starter(const struct ddp__env *env)
{
	return names[env->starter].starter;
}

int ddp__env_timeout(int given, int *timeout_ms, struct err *e)
{
	int seconds = DEFAULT_TIMEOUT_MS / 1000, rc;

	*timeout_ms = given;
	if (given)
		return 0;
	rc = env_get_int("DDP_TIMEOUT", -1, INT_MAX / 1000, &seconds, e);
	*timeout_ms = seconds < 0 ? -1 : seconds * 1000;
	if (!rc && seconds == 0)
		rc = err_set(e, ERR_USAGE,
			     "DDP_TIMEOUT is 0: give seconds, or -1 to wait "
			     "for ever");
	return rc;
}

/* mpi_env.c: the rows of MPI launchers, which start one ddprun per node:
 * OpenMPI's mpirun and prterun, which speak PMIx, and MPICH's mpiexec (hydra)
 * and its relatives, which speak PMI-1. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"
#include "launcher/env/launch_env_internal.h"
#include "launcher/plan/cpus.h"

/* By default mpirun binds the only process of a node to one core, which its
 * workers would share. Unless the user asked for that, unbinds this process. */
static void mpi_env_unbind(void)
{
	struct cpus before, all;

	memset(&all, 0xff, sizeof(all));
	if (cpus_allowed(&before, NULL) ||
	    sched_setaffinity(0, sizeof(all.sets), all.sets) ||
	    cpus_allowed(&all, NULL) ||
	    cpus_count(&all) == cpus_count(&before))
		return;
	log_debug("mpirun bound this ddprun to %u of the %u CPUs that it may "
		  "use, which is mpirun's default; ddprun uses all of them "
		  "(mpirun --bind-to core keeps the binding)",
		  cpus_count(&before), cpus_count(&all));
}

/* Keeps the launcher's descriptors from the workers. */
static void mpi_env_keep_descriptors(void)
{
	static const char *const names[] = {"PMI_FD", "HYDI_CONTROL_FD"};
	const char *text;
	long fd;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		text = getenv(names[i]);
		if (text && parse_long(text, 3, 1 << 20, "", &fd, NULL) == 0)
			fcntl((int)fd, F_SETFD, FD_CLOEXEC);
	}
}

static int mpi_env_query_pmix(struct mpirun *m, struct err *e)
{
	struct pmix_self self;
	int rc = mpi_bootstrap_ask_pmix(&self, e);

	if (rc)
		return rc;
	if (self.world_size < 1)
		return err_set(e, ERR_USAGE,
			       "PMIX_RANK is set, but PMIx does not give the "
			       "number of processes: give --nnodes and "
			       "--rdzv-endpoint, or --standalone");
	m->size = (uint32_t)self.world_size;
	m->here = self.local_world_size > 0 ? (uint32_t)self.local_world_size
					    : 0;
	return 0;
}

static void mpi_env_fill(struct launch_env *env)
{
	const struct mpirun *m = &env->mpi;
	const char *s = m->size == 1 ? "" : "s";

	env->role = LAUNCH_TASK;
	env->command = mpirun_name(m);
	env->rank_variable = mpirun_rank_name(m);
	snprintf(env->started, sizeof(env->started), "by %s on %u node%s",
		 env->command, m->size, s);
	snprintf(env->has_nodes, sizeof(env->has_nodes),
		 "%s starts ddprun on %u node%s", env->command, m->size, s);
	env->more = "start more, one on each node";
	snprintf(env->fewer, sizeof(env->fewer), "%s; leave --nnodes out",
		 env->has_nodes);
	env->nodes = m->size;
	env->node_rank = env->node_index = m->rank;
	env->exchanges = m->size > 1;
	env->signals_reach_all = env->says_twice = 1;
}

/* 1 if the nodes meet at a known place. With port 0 (a free one) they do not:
 * the first node must still tell the others its port. */
static int mpi_env_is_elsewhere(const struct launch_request *r)
{
	return (r->place || r->etcd) && !r->free_port;
}

/* Checks that several nodes can tell each other where they meet. */
static int mpi_env_check_fd(const struct launch_env *env,
			    const struct launch_request *r, struct err *e)
{
	const struct mpirun *m = &env->mpi;

	if (m->kind != MPIRUN_PMI || m->fd >= 0 || m->size == 1 ||
	    mpi_env_is_elsewhere(r))
		return 0;
	return err_set(e, ERR_USAGE,
		       "PMI_RANK is set but PMI_FD is not, so the nodes cannot "
		       "agree where to meet: give --rdzv-endpoint HOST:PORT "
		       "with an address of the first node");
}

/* If the user gives both the number of nodes and their meeting place, each node
 * was started by a command of its own, and this row does not apply. */
static int mpi_env_read(struct launch_env *env, const struct launch_request *r,
			int is_pmi, struct err *e)
{
	struct mpirun *m = &env->mpi;
	int rc;

	if (r->standalone || getenv("DDP_AGENT_ID") ||
	    (mpi_env_is_elsewhere(r) && r->nnodes))
		return 0;
	rc = mpirun_read(m, launch_env_getenv, e);
	if (rc < 0 || m->kind == MPIRUN_NONE ||
	    (m->kind == MPIRUN_PMI) != is_pmi)
		return rc;
	if (m->kind == MPIRUN_PMIX)
		rc = mpi_env_query_pmix(m, e);
	if (rc == 0)
		rc = mpirun_check(m, e);
	if (rc == 0)
		rc = mpi_env_check_fd(env, r, e);
	if (rc < 0)
		return rc;
	mpi_env_keep_descriptors();
	if (m->bound)
		mpi_env_unbind();
	mpi_env_fill(env);
	return 1;
}

static int openmpi_read(struct launch_env *env, const struct launch_request *r,
			struct err *e)
{
	return mpi_env_read(env, r, 0, e);
}

static int mpich_read(struct launch_env *env, const struct launch_request *r,
		      struct err *e)
{
	return mpi_env_read(env, r, 1, e);
}

static const char *mpi_has_started(void)
{
	struct mpirun m;

	if (mpirun_read(&m, launch_env_getenv, NULL) < 0 || !m.kind ||
	    m.size == 1)
		return NULL;
	return mpirun_name(&m);
}

static int mpi_exchange(const struct launch_env *env,
			const struct launch_offer *o,
			struct bootstrap_record *out, struct err *e)
{
	return mpi_bootstrap(&env->mpi, o, out, e);
}

static const char *const openmpi_marks[] = {"OMPI_COMM_WORLD_RANK",
					    "PMIX_RANK", NULL};
static const char *const mpich_marks[] = {"PMI_RANK", NULL};

const struct launch_source openmpi_env = {
	.marks = openmpi_marks,
	.read = openmpi_read,
	.has_started = mpi_has_started,
	.exchange = mpi_exchange,
};

const struct launch_source mpich_env = {
	.marks = mpich_marks,
	.read = mpich_read,
	.exchange = mpi_exchange,
};

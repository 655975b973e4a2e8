/* batch_env.c: the rows of PBS, LSF and Kubernetes' mpi-operator. They only
 * list the job's hosts; we start ddprun there over ssh. */
#include <stdlib.h>
#include <string.h>

#include "launcher/env/launch_env_internal.h"

/* Does not apply if another launcher is in between, or if the user starts each
 * node by hand with all its options. */
static int batch_env_applies(const struct launch_request *r)
{
	return !(r->standalone || r->place || r->etcd || r->node_rank ||
		 launch_env_is_marked());
}

static int batch_env_read_list(struct launch_env *env,
			       const struct launch_request *r, int is_set)
{
	if (!is_set || !batch_env_applies(r))
		return 0;
	env->role = LAUNCH_HOSTS;
	return 1;
}

static int batch_env_has(const char *name)
{
	const char *text = getenv(name);

	return text && *text;
}

/* pbsdsh starts its tasks without the file. */
static int pbs_check_task(const struct launch_request *r, struct err *e)
{
	const char *nodes = getenv("PBS_NUM_NODES");
	const char *node = getenv("PBS_NODENUM");
	int is_many = nodes && strtol(nodes, NULL, 10) > 1;

	if (batch_env_has("PBS_NODEFILE") || r->one_node ||
	    !batch_env_applies(r) ||
	    (!is_many && (!node || strtol(node, NULL, 10) < 1)))
		return 0;
	return err_set(e, ERR_USAGE, "PBS started this ddprun (%s=%.40s), but "
		       "PBS_NODEFILE is not set: start ddprun once, in the "
		       "job's script, or write ddprun -H HOST,HOST, or "
		       "--standalone for a job on this node",
		       is_many ? "PBS_NUM_NODES" : "PBS_NODENUM",
		       is_many ? nodes : node);
}

static int pbs_read(struct launch_env *env, const struct launch_request *r,
		    struct err *e)
{
	if (pbs_check_task(r, e) < 0)
		return ERR_USAGE;
	return batch_env_read_list(env, r, batch_env_has("PBS_NODEFILE"));
}

static int lsf_read(struct launch_env *env, const struct launch_request *r,
		    struct err *e)
{
	return batch_env_read_list(env, r,
				   batch_env_has("LSB_DJOB_HOSTFILE") ||
					   batch_env_has("LSB_MCPU_HOSTS") ||
					   batch_env_has("LSB_HOSTS"));
}

/* ---- mpi-operator ---- */

/* Its launcher pod has a file with the workers' names, and variables that name
 * this file to the MPI library. NULL: this is no such pod. */
static const char *mpi_operator_file(void)
{
	static const char *const names[] = {
		"OMPI_MCA_orte_default_hostfile",
		"PRTE_MCA_prte_default_hostfile",
		"I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE",
	};
	const char *role = getenv("K_MPI_JOB_ROLE");
	int is_launcher = role && strcmp(role, "launcher") == 0;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *text = getenv(names[i]);

		/* elsewhere it is the user's, for mpirun */
		if (text && *text && (is_launcher ||
				      strncmp(text, "/etc/mpi/", 9) == 0))
			return text;
	}
	return is_launcher ? "/etc/mpi/hostfile" : NULL;
}

static int mpi_operator_read(struct launch_env *env,
			     const struct launch_request *r, struct err *e)
{
	const char *agent = getenv("OMPI_MCA_plm_rsh_agent");
	const char *role = getenv("K_MPI_JOB_ROLE");
	int rc = r->one_node ? 0
			     : batch_env_read_list(env, r,
						   mpi_operator_file() != NULL);

	if (rc > 0 && agent && strstr(agent, "kubexec"))
		return err_set(e, ERR_USAGE,
			       "this mpi-operator starts processes in its "
			       "workers with %s, not with ssh: write mpirun "
			       "--map-by ppr:1:node ddprun ...", agent);
	if (!rc && role && strcmp(role, "worker") == 0 && !r->one_node &&
	    batch_env_applies(r))
		return err_set(e, ERR_USAGE,
			       "this is a worker of mpi-operator's "
			       "(K_MPI_JOB_ROLE=worker): start ddprun in the "
			       "job's launcher, or write --standalone for a "
			       "job on this node");
	return rc;
}

static int mpi_operator_list_hosts(struct host_list *l, struct err *e)
{
	return host_list_read(l, mpi_operator_file(), e);
}

/* ---- the rows ---- */

static int batch_env_list_hosts(struct host_list *l, struct err *e)
{
	int rc = host_list_scheduler(l, launch_env_getenv, e);

	return rc < 0 ? rc : 0;
}

const struct launch_source pbs_env = {
	.read = pbs_read,
	.list_hosts = batch_env_list_hosts,
};

const struct launch_source lsf_env = {
	.read = lsf_read,
	.list_hosts = batch_env_list_hosts,
};

const struct launch_source mpi_operator_env = {
	.read = mpi_operator_read,
	.list_hosts = mpi_operator_list_hosts,
};

/* batch_env.c: the rows of PBS and LSF. They only list the job's hosts; we
 * start ddprun there over ssh. */
#include <stdlib.h>

#include "launcher/env/launch_env_internal.h"

static const char *batch_env_get(const char *name)
{
	return getenv(name);
}

/* Does not apply if another launcher is in between, or if the user starts each
 * node by hand with all its options. */
static int batch_env_read_list(struct launch_env *env,
			       const struct launch_request *r, int is_set)
{
	if (!is_set || r->standalone || r->place || r->etcd || r->node_rank ||
	    launch_env_is_marked())
		return 0;
	env->role = LAUNCH_HOSTS;
	return 1;
}

static int batch_env_has(const char *name)
{
	const char *text = getenv(name);

	return text && *text;
}

static int pbs_read(struct launch_env *env, const struct launch_request *r,
		    struct err *e)
{
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

static int batch_env_list_hosts(struct host_list *l, struct err *e)
{
	int rc = host_list_scheduler(l, batch_env_get, e);

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

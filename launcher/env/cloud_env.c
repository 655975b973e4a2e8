/* cloud_env.c: the row of the clouds and of Kubernetes: they start one ddprun
 * in a container of each node, and tell it its place (cloud_place.h). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/local_addrs.h"
#include "base/log.h"
#include "launcher/env/cloud_place.h"
#include "launcher/env/launch_env_internal.h"

enum { CLOUD_PORT = 29400 };

/* 1 if the user has written all that would be read here, or another launcher
 * is between the platform and this ddprun. */
static int cloud_env_is_decided(const struct launch_request *r)
{
	return r->standalone || r->one_node ||
	       (r->nnodes && (r->place || r->etcd)) ||
	       launch_env_is_marked() ||
	       (getenv("LOCAL_RANK") && getenv("TORCHELASTIC_RUN_ID"));
}

/* Refuses to start a world of one where there are several nodes. */
static int cloud_env_check(const struct cloud_place *p,
			   const struct launch_request *r, struct err *e)
{
	const char *advice = p->advice ? p->advice : "";
	const char *also = p->advice ? "; " : "";
	int finds_place = r->place || r->etcd || p->first[0] || p->is_first;

	if (!p->nodes && !r->nnodes)
		return err_set(e, ERR_USAGE,
			       "%s started this ddprun (%s), and its variables "
			       "do not say on how many nodes: write ddprun "
			       "--nnodes N%s, or --standalone for a separate "
			       "job on each%s%s", p->platform, p->evidence,
			       finds_place ? "" : " --rdzv-endpoint "
						  "FIRST_NODE:29400",
			       also, advice);
	if (!finds_place || (p->is_first && !p->first[0] && p->rank < 0))
		return err_set(e, ERR_USAGE,
			       "%s started this ddprun (%s), and its variables "
			       "do not name the first node: write ddprun "
			       "--rdzv-endpoint FIRST_NODE:29400, or "
			       "--standalone for a separate job on each%s%s",
			       p->platform, p->evidence, also, advice);
	return 0;
}

static void cloud_env_fill(struct launch_env *env, const struct cloud_place *p)
{
	env->role = LAUNCH_TASK;
	env->command = p->platform;
	env->rank_variable = p->rank_variable;
	env->logs_apart = 1;
	env->nodes = p->nodes;
	env->is_rankless = p->rank < 0;
	env->node_rank = env->node_index = p->rank < 0 ? 0 : (uint32_t)p->rank;
	env->gpus = p->gpus;
	env->tasks = 1;
	env->ports[0] = p->port ? p->port : CLOUD_PORT;
	snprintf(env->started, sizeof(env->started), "by %s", p->platform);
	if (p->nodes)
		snprintf(env->started, sizeof(env->started),
			 "by %s on %u nodes", p->platform, p->nodes);
	snprintf(env->has_nodes, sizeof(env->has_nodes),
		 "%s started ddprun on %u nodes", p->platform, p->nodes);
	env->more = "start more there";
	snprintf(env->first_host, sizeof(env->first_host), "%s", p->first);
	/* nobody tells the first node its own address */
	if (!p->first[0])
		sock_host_name(env->first_host);
}

static int cloud_read(struct launch_env *env, const struct launch_request *r,
		      struct err *e)
{
	char host[SOCK_HOST_MAX];
	struct cloud_place p;
	const struct cloud_view v = {
		.get = launch_env_getenv, .vars = environ, .host = host,
		.etc_hosts = "/etc/hosts",
		.resource_config = "/opt/ml/input/config/resourceconfig.json",
	};
	int rc;

	if (cloud_env_is_decided(r))
		return 0;
	sock_host_name(host);
	rc = cloud_place_read(&p, &v, e);
	if (rc <= 0 || p.nodes == 1)
		return rc < 0 ? rc : 0;
	if (cloud_env_check(&p, r, e) < 0)
		return ERR_USAGE;
	cloud_env_fill(env, &p);
	return 1;
}

/* The first node need not resolve its own name. The server then listens on all
 * addresses that others may use. */
static int cloud_resolve(const struct launch_env *env,
			 const struct endpoint *at, int hosts,
			 struct sock_addr *out, int max, int *is_guess,
			 struct err *e)
{
	if (!hosts)
		return e->code;
	log_info("this node does not resolve '%s', its own name: the "
		 "rendezvous server listens on all of its addresses",
		 at->host);
	return sock_addr_number("127.0.0.1", at->port, out);
}

static int cloud_own_addr(const struct launch_env *env, char *text)
{
	char own[1][SOCK_TEXT_MAX];

	if (local_addrs(own, 1) < 1)
		return 0;
	snprintf(text, SOCK_TEXT_MAX, "%s", own[0]);
	return 1;
}

const struct launch_source cloud_env = {
	.read = cloud_read,
	.resolve = cloud_resolve,
	.own_addr = cloud_own_addr,
};

/* launch_defaults.c: derives ddprun's options from the launcher's facts. */
#include "launcher/config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "launcher/plan/cpus.h"
#include "launcher/plan/gpu.h"
#include "rendezvous/wire.h"

/* ---- the user's decisions ---- */

/* 1 if the user names a host, with port 0 for a free one. */
static int launch_defaults_is_free_port(const struct config *c)
{
	enum { SOME_PORT = 1 };
	struct endpoint at;

	if (c->endpoint_given)
		return endpoint_parse(&at, c->endpoint_text, SOME_PORT,
				      NULL) == 0 && !at.port;
	return c->master_addr_given && c->master_port_given &&
	       c->master_port == 0;
}

int launch_defaults_init(struct config *c, struct err *e)
{
	const struct launch_request r = {
		.standalone = c->standalone, .nnodes = c->nnodes_given,
		.one_node = c->nnodes_given && !strcmp(c->nnodes_text, "1"),
		.node_rank = c->node_rank_given,
		.place = (c->endpoint_given && !c->etcd.members) ||
			 c->master_addr_given,
		.free_port = launch_defaults_is_free_port(c),
		.etcd = c->etcd.members != NULL,
		.terminal = c->tty != NULL,
	};
	int rc = launch_env_init(&c->env, &r, e);

	if (rc == 0 && c->env.nodes && !c->nnodes_given) {
		snprintf(c->nodes_text, sizeof(c->nodes_text), "%u",
			 c->env.nodes);
		c->nnodes_text = c->nodes_text;
	}
	return rc;
}

/* ---- nodes ---- */

static int launch_defaults_is_fixed(const struct config *c)
{
	return strchr(c->nnodes_text, ':') == NULL;
}

/* 1 if nodes that this launcher did not start may join. */
static int launch_defaults_is_elsewhere(const struct config *c)
{
	/* the step that srun starts in this allocation is the whole job */
	if (c->etcd.members && c->env.role == LAUNCH_STEP)
		return 0;
	if (c->env.exchanges && launch_defaults_is_free_port(c))
		return 0;
	return c->endpoint_given || c->master_addr_given;
}

static int launch_defaults_check_nodes(const struct config *c, struct err *e)
{
	const struct launch_env *env = &c->env;

	if (c->min_nodes > env->nodes)
		return err_set(e, ERR_USAGE, "--nnodes %s: %s; leave --nnodes "
			       "out, or %s", c->nnodes_text, env->has_nodes,
			       env->more);
	if (env->fewer[0] && launch_defaults_is_fixed(c) &&
	    c->min_nodes < env->nodes)
		return err_set(
			e, ERR_USAGE,
			"--nnodes %s: %s, or --nnodes %u:%u to keep the others "
			"as spares, or --standalone for a separate job on each",
			c->nnodes_text, env->fewer, c->min_nodes, c->max_nodes);
	return 0;
}

/* The launcher's number of this node, where all nodes take part. */
static void launch_defaults_rank(struct config *c)
{
	const struct launch_env *env = &c->env;

	if (env->role == LAUNCH_TASK && !env->is_rankless &&
	    !c->node_rank_given && c->min_nodes == c->max_nodes &&
	    env->node_rank < c->max_nodes)
		c->node_rank = env->node_rank;
}

int launch_defaults_nodes(struct config *c, struct err *e)
{
	const struct launch_env *env = &c->env;
	int elsewhere = launch_defaults_is_elsewhere(c), all;

	if (!env->nodes) {
		launch_defaults_rank(c);
		return 0;
	}
	c->meets = env->exchanges && launch_defaults_is_free_port(c);
	if (!elsewhere && launch_defaults_check_nodes(c, e) < 0)
		return ERR_USAGE;
	if (env->role != LAUNCH_TASK)
		return 0;
	all = c->min_nodes == env->nodes && c->max_nodes == env->nodes;
	if (all)
		launch_defaults_rank(c);
	/* nodes that another launcher started must use the same name */
	if (env->job[0] && !c->job_given && (all || !elsewhere))
		c->job = env->job;
	return 0;
}

/* ---- workers ---- */

/* The number of GPUs that CUDA will show; the host's number if the launcher
 * reports none. */
static long launch_defaults_count_gpus(const struct config *c)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES"), *why;
	long n = (long)c->env.gpus;

	if (!n)
		return gpu_count(&why);
	if (list && (long)gpu_list_count(list) < n)
		n = (long)gpu_list_count(list);
	return n;
}

static long launch_defaults_count_cpus(const struct config *c)
{
	struct cpus allowed;

	if (c->env.cpus)
		return (long)c->env.cpus;
	return cpus_allowed(&allowed, NULL) == 0 ? (long)cpus_count(&allowed)
						 : 1;
}

int launch_defaults_nproc(struct config *c, struct err *e)
{
	long have = launch_defaults_count_gpus(c),
	     each = c->gpus_per_proc ? c->gpus_per_proc : 1;
	long n = have / each;

	c->nproc_why = "by its GPUs";
	if (have && !n)
		return err_set(e, ERR_USAGE,
			       "--gpus-per-proc %ld: this node has %ld GPU%s "
			       "for the job; ask for more (srun: "
			       "--gpus-per-node), or give a smaller number",
			       each, have, have == 1 ? "" : "s");
	if (!n) {
		n = (long)c->env.tasks;
		c->nproc_why = "by the job's tasks";
	}
	if (!n) {
		n = launch_defaults_count_cpus(c);
		c->nproc_why = "by its CPUs";
	}
	if (n > WIRE_NPROC_MAX)
		n = WIRE_NPROC_MAX;
	c->nproc = (uint32_t)n;
	return 0;
}

/* ---- where the nodes meet ---- */

/* Takes one of the job's own ports, unless a port is given: a port that is free
 * on one node may be in use on another. */
static void launch_defaults_take_ports(struct config *c, uint16_t given)
{
	c->endpoint.port = given;
	if (given)
		return;
	memcpy(c->ports, c->env.ports, sizeof(c->ports));
	c->nports = c->env.nports;
	c->endpoint.port = c->ports[0];
}

void launch_defaults_port(struct config *c)
{
	if (c->max_nodes > 1 && c->env.nports && !c->endpoint.port)
		launch_defaults_take_ports(c, 0);
}

/* The nodes will exchange the endpoint through the launcher. */
static int launch_defaults_exchange(struct config *c)
{
	c->endpoint = (struct endpoint){"localhost", 0};
	c->meets = c->env.exchanges;
	c->private_endpoint = c->env.nodes == 1 && c->max_nodes == 1 &&
			      !c->master_port_given;
	return c->meets || c->private_endpoint;
}

int launch_defaults_endpoint(struct config *c)
{
	const struct launch_env *env = &c->env;

	if (env->role != LAUNCH_TASK || c->master_addr_given)
		return 0;
	if (!env->first_host[0])
		return launch_defaults_exchange(c);
	if (c->max_nodes == 1 && !(c->master_port_given && c->master_port)) {
		c->private_endpoint = 1;
		c->endpoint = (struct endpoint){"localhost", 0};
		return 1;
	}
	launch_defaults_take_ports(
		c, c->master_port_given ? (uint16_t)c->master_port : 0);
	snprintf(c->endpoint.host, sizeof(c->endpoint.host), "%s",
		 env->first_host);
	if (c->is_host < 0 && !env->is_rankless)
		c->is_host = env->node_index == 0;
	return 1;
}

/* The rendezvous timeout in ms, from 1 (0 would mean no deadline) to a day,
 * which is as good as none. */
static int launch_defaults_timeout_ms(const struct config *c)
{
	return c->rdzv_timeout_s > 86400 ? 86400000
					 : (int)(c->rdzv_timeout_s * 1000) + 1;
}

/* Takes the job's secret, unless the user has chosen one. */
static void launch_defaults_take_key(struct config *c,
				     const struct bootstrap_record *p)
{
	struct proof key;

	if (!auth_is_free(c->auth_text, c->token_file))
		return;
	memcpy(key.bytes, p->key, sizeof(key.bytes));
	auth_of_secret(&c->handed, &key, "the first node, through mpirun");
	proof_wipe(&key, sizeof(key));
}

int launch_defaults_meet(struct config *c, struct err *e)
{
	const struct launch_offer offer = {
		.timeout_ms = launch_defaults_timeout_ms(c),
		.at = c->endpoint_given || c->master_addr_given ? &c->endpoint
								: NULL,
		.local_addr = c->local_addr_given ? c->local_addr : NULL,
		.port = c->master_port_given ? (uint16_t)c->master_port : 0,
	};
	struct bootstrap_record p;
	int rc = launch_env_exchange(&c->env, &offer, &p, e);

	if (rc)
		return rc;
	c->endpoint = p.at[0];
	launch_defaults_take_key(c, &p);
	c->is_host = c->env.node_index == 0;
	if (!c->job_given) {
		snprintf(c->job_text, sizeof(c->job_text), "%.39s", p.job);
		c->job = c->job_text;
	}
	return 0;
}

/* ---- log ---- */

static void launch_defaults_put_rank(const struct config *c, struct buf *b)
{
	const struct launch_env *env = &c->env;

	if (c->node_rank_given || c->node_rank < 0 || env->nodes == 1)
		return;
	if (env->rank_variable)
		buf_printf(b, " --node-rank $%s", env->rank_variable);
	else
		buf_printf(b, " --node-rank %ld", c->node_rank);
}

void launch_defaults_log(const struct config *c)
{
	const struct launch_env *env = &c->env;
	char at[SOCK_TEXT_MAX];
	struct buf b;

	if (env->role != LAUNCH_TASK ||
	    (env->node_index != 0 && !env->logs_apart))
		return;
	buf_init(&b, 4096);
	if (!c->nnodes_given && env->nodes > 1)
		buf_printf(&b, " --nnodes %s", c->nnodes_text);
	launch_defaults_put_rank(c, &b);
	if (!c->nproc_given)
		buf_printf(&b, " --nproc-per-node %u (%s)", c->nproc,
			   c->nproc_why);
	if (c->meets || ((c->is_host == 1 || env->logs_apart) &&
			 !c->endpoint_given && !c->master_addr_given))
		buf_printf(&b, " --rdzv-endpoint %s",
			   endpoint_text(&c->endpoint, at));
	if (c->job == env->job || (c->meets && !c->job_given))
		buf_printf(&b, " --rdzv-id %s", c->job);
	if (b.len && !b.failed)
		log_info("started %s: using%.*s", env->started, (int)b.len,
			 b.data);
	buf_release(&b);
	if (env->source->log_advice)
		env->source->log_advice(env, c->nproc);
}

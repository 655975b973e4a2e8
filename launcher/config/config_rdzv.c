/* config_rdzv.c: decides from the options where the nodes meet. */
#include "launcher/config/config_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/local_addrs.h"
#include "base/random.h"
#include "launcher/config/config.h"

enum { RDZV_PORT = 29400, MASTER_PORT = 29500, NAME_BYTES_MAX = 256 };

/* ---- the backend ---- */

static int config_refuse_with_etcd(const struct config *c, const char *option,
				   const char *why, struct err *e)
{
	return err_set(e, ERR_USAGE, "--rdzv-backend %s with %s: %s; leave one "
		       "of them out", c->backend, option, why);
}

/* Refuses other options that say where the server is or keeps its state. */
static int config_check_etcd(const struct config *c, struct err *e)
{
	if (c->hosts_text || c->hostfile)
		return config_refuse_with_etcd(
			c, c->hosts_text ? "-H" : "--hostfile",
			"over ssh the hosts meet at the ddprun that starts "
			"them", e);
	if (c->standalone)
		return config_refuse_with_etcd(
			c, "--standalone",
			"a job on this host alone needs no etcd", e);
	if (c->journal)
		return config_refuse_with_etcd(c, "--journal", "etcd keeps the "
					       "server's state", e);
	if (!c->endpoint_given)
		return err_set(e, ERR_USAGE, "--rdzv-backend %s needs "
			       "--rdzv-endpoint HOST[:PORT],...: the members "
			       "of etcd", c->backend);
	return 0;
}

int config_rdzv_backend(struct config *c, struct err *e)
{
	if (etcd_options_is_backend(c->backend)) {
		c->etcd.members = c->endpoint_text;
		return config_check_etcd(c, e);
	}
	if (strcmp(c->backend, "static") != 0 &&
	    strcmp(c->backend, "c10d") != 0)
		return err_set(e, ERR_USAGE,
			       "--rdzv-backend '%s' is not supported: ddprun "
			       "has its own server, and etcd to make it "
			       "fault-tolerant; leave it out",
			       c->backend);
	return 0;
}

/* Two jobs without names would be the same job at that etcd. */
static int config_check_etcd_id(const struct config *c, struct err *e)
{
	if (c->job_given || c->job == c->env.job ||
	    c->env.role == LAUNCH_STEP)
		return 0;
	return err_set(e, ERR_USAGE,
		       "--rdzv-backend %s needs --rdzv-id ID: each job in this "
		       "etcd needs its own",
		       c->backend);
}

/* ---- the endpoint ---- */

/* Decides the port of a master address. */
static int config_master_port(const struct config *c, const char *env,
			      uint16_t *port, struct err *e)
{
	long value = MASTER_PORT;
	int rc = 0;

	if (c->master_port_given)
		value = c->master_port;
	else if (env)
		rc = parse_long(env, 0, 65535, "MASTER_PORT in the environment",
				&value, e);
	*port = (uint16_t)value;
	return rc;
}

static int config_decide_endpoint(struct config *c, struct err *e)
{
	const char *addr = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
	uint16_t master = RDZV_PORT;
	int rc;

	if (c->endpoint_given) {
		rc = endpoint_parse(&c->endpoint, c->endpoint_text, RDZV_PORT,
				    e);
		if (rc == 0)
			launch_defaults_port(c);
		return rc;
	}
	if (launch_defaults_endpoint(c)) {
		c->is_master_endpoint = c->master_port_given && !c->nports;
		return 0;
	}
	addr = addr && *addr ? addr : NULL;
	port = port && *port ? port : NULL;
	/* in the environment they may be meant for another job or come from
	 * another launcher: a job of one node ignores them */
	if (!c->master_addr_given && !c->master_port_given &&
	    (c->max_nodes == 1 || (!addr && !port))) {
		c->private_endpoint = c->max_nodes == 1;
		return endpoint_parse(&c->endpoint, "localhost", RDZV_PORT, e);
	}
	rc = config_master_port(c, port, &master, e);
	if (rc < 0)
		return rc;
	c->is_master_endpoint = 1;
	if (c->master_addr_given)
		addr = c->master_addr;
	return endpoint_parse(&c->endpoint, addr ? addr : "localhost", master,
			      e);
}

static int config_decide_etcd(struct config *c, struct err *e)
{
	struct endpoint members[ETCD_OPTIONS_MEMBERS_MAX];
	int rc = etcd_options_members(c->etcd.members, members, e);

	if (rc < 0)
		return rc;
	if (c->is_host >= 0)
		return config_refuse_with_etcd(
			c, "--rdzv-conf is_host",
			"etcd elects the node that hosts the server", e);
	c->endpoint = members[0];
	/* when the server is lost, a new one takes up to three lease times */
	if (!c->reconnect_given && c->reconnect_s < 3 * (double)c->etcd.ttl_s)
		c->reconnect_s = 3 * (double)c->etcd.ttl_s;
	return 0;
}

static int config_make_standalone(struct config *c, struct err *e)
{
	enum { ID_BYTES = 8 };
	int rc;

	if (c->max_nodes != 1)
		return err_set(e, ERR_USAGE, "--standalone is for one node, "
			       "not --nnodes %s; leave one of them out",
			       c->nnodes_text);
	rc = random_hex(c->job_text, ID_BYTES, e);
	if (rc < 0)
		return rc;
	c->job = c->job_text;
	c->private_endpoint = 1;
	return endpoint_parse(&c->endpoint, "127.0.0.1", 0, e);
}

/* 0 if torchrun's variable asks that rank 0 host PyTorch's store. */
static int config_wants_agent_store(void)
{
	const char *off = getenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE");

	return !off || strcmp(off, "1") != 0;
}

static int config_decide_interface(struct config *c, struct err *e)
{
	int rc;

	if (!c->interface)
		return 0;
	if (c->local_addr_given)
		return err_set(e, ERR_USAGE,
			       "--interface and --local-addr both set this "
			       "node's address; leave one of them out");
	rc = local_addr_on(c->interface, c->interface_addr, e);
	c->local_addr = c->interface_addr;
	c->local_addr_given = rc == 0;
	return rc;
}

/* The server is at the endpoint. If --local-addr is another name, it may mean
 * another host on other nodes; a numeric address cannot. */
static int config_is_store_elsewhere(const struct config *c)
{
	struct sock_addr a;

	return c->local_addr_given &&
	       strcmp(c->local_addr, c->endpoint.host) != 0 &&
	       !sock_addr_scoped_number(c->local_addr, 0, &a);
}

int config_rdzv_decide(struct config *c, struct err *e)
{
	int rc;

	c->agent_store = config_wants_agent_store();
	if (c->etcd.members)
		rc = config_decide_etcd(c, e);
	else
		rc = c->standalone ? config_make_standalone(c, e)
				   : config_decide_endpoint(c, e);
	if (rc == 0)
		rc = config_decide_interface(c, e);
	/* the journal does not hold the data of PyTorch's clients */
	if (rc == 0 && (c->etcd.members || config_is_store_elsewhere(c)))
		c->agent_store = 0;
	return rc;
}

/* ---- checks ---- */

static int config_is_printable(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return 0;
	}
	return 1;
}

int config_is_name(const char *text)
{
	return *text && strlen(text) <= NAME_BYTES_MAX &&
	       config_is_printable(text);
}

static int config_check_endpoint(const struct config *c, struct err *e)
{
	if (c->node_rank_given && c->node_rank >= (long)c->max_nodes)
		return err_set(e, ERR_USAGE,
			       "--node-rank %ld: with --nnodes %s it must be "
			       "from 0 to %u",
			       c->node_rank, c->nnodes_text, c->max_nodes - 1);
	return 0;
}

int config_rdzv_check(const struct config *c, struct err *e)
{
	int rc = config_check_endpoint(c, e);

	if (rc == 0 && c->etcd.members)
		rc = etcd_options_check(&c->etcd, e);
	if (rc == 0 && c->etcd.members)
		rc = config_check_etcd_id(c, e);
	if (rc == 0 && !config_is_name(c->job))
		rc = err_set(e, ERR_USAGE, "--rdzv-id: the name must have 1 to "
			     "%d printable bytes", NAME_BYTES_MAX);
	return rc;
}

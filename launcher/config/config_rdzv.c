/* config_rdzv.c: decides from the options where the nodes meet; and maps
 * torchrun's --rdzv-conf to our options. */
#include "launcher/config/config_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/local_addrs.h"
#include "base/log.h"
#include "base/random.h"
#include "rendezvous/wire.h"

enum {
	RDZV_PORT = 29400,
	MASTER_PORT = 29500,
	NAME_BYTES_MAX = 256,
	WORD_MAX_BYTES = 256, /* of --rdzv-conf */
};

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

/* ---- torchrun's --rdzv-conf ---- */

static int rdzv_conf_refuse(struct err *e, const char *key, const char *value,
			    const char *why)
{
	return err_set(e, ERR_USAGE, "--rdzv-conf: %s=%s: %s", key, value, why);
}

static int rdzv_conf_take_seconds(const char *key, const char *value,
				  double min, double *out, struct err *e)
{
	char *end;
	double v = strtod(value, &end);

	if (end == value || *end || !(v >= min && v <= 1e9))
		return rdzv_conf_refuse(e, key, value,
					"give a number of seconds");
	*out = v;
	return 0;
}

/* Sets *out unless the option itself is given, on the command line or as a
 * variable. */
static int rdzv_conf_take_default(const char *key, const char *value,
				  double min, int given, double *out,
				  struct err *e)
{
	double v;
	int rc = rdzv_conf_take_seconds(key, value, min, &v, e);

	if (rc == 0 && !given)
		*out = v;
	return rc;
}

static int rdzv_conf_take_rank(struct config *c, const char *value,
			       struct err *e)
{
	long rank;

	if (parse_long(value, 0, WIRE_NODES_MAX - 1, "", &rank, NULL) < 0)
		return rdzv_conf_refuse(e, "rank", value,
					"give a node rank, 0 and up");
	if (!c->node_rank_given)
		c->node_rank = rank;
	c->node_rank_given = 1;
	return 0;
}

static int rdzv_conf_take_is_host(struct config *c, const char *value,
				  struct err *e)
{
	static const char *const yes[] = {"1", "true", "t", "yes", "y"};
	static const char *const no[] = {"0", "false", "f", "no", "n"};

	for (int i = 0; i < 5; i++) {
		if (strcasecmp(value, yes[i]) == 0 ||
		    strcasecmp(value, no[i]) == 0) {
			c->is_host = strcasecmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return rdzv_conf_refuse(e, "is_host", value, "give 1 or 0");
}

static int rdzv_conf_take(struct config *c, const char *key, const char *value,
			  int *join_timeout, struct err *e)
{
	const char *why = "";
	double unused;
	int rc;

	if (strcmp(key, "join_timeout") == 0) {
		*join_timeout = 1;
		return rdzv_conf_take_default(key, value, 0.001,
					      c->rdzv_timeout_given,
					      &c->rdzv_timeout_s, e);
	}
	/* the static backend's name for it, of no effect with c10d */
	if (strcmp(key, "timeout") == 0)
		return rdzv_conf_take_default(key, value, 0.001,
					      c->rdzv_timeout_given ||
						      *join_timeout ||
						      strcmp(c->backend,
							     "c10d") == 0,
					      &c->rdzv_timeout_s, e);
	if (strcmp(key, "last_call_timeout") == 0)
		return rdzv_conf_take_default(key, value, 0, c->last_call_given,
					      &c->last_call_s, e);
	if (strcmp(key, "heartbeat_timeout") == 0)
		return rdzv_conf_take_default(key, value, 0.1,
					      c->heartbeat_given,
					      &c->heartbeat_s, e);
	if (strcmp(key, "reconnect_timeout") == 0) {
		c->reconnect_given = 1;
		return rdzv_conf_take_seconds(key, value, 0, &c->reconnect_s,
					      e);
	}
	/* valid in torchrun; we have no such timeout */
	if (strcmp(key, "close_timeout") == 0 ||
	    strcmp(key, "read_timeout") == 0)
		return rdzv_conf_take_seconds(key, value, 0, &unused, e);
	if (strcmp(key, "rank") == 0)
		return rdzv_conf_take_rank(c, value, e);
	if (strcmp(key, "is_host") == 0)
		return rdzv_conf_take_is_host(c, value, e);
	if (strcmp(key, "store_type") == 0) {
		if (strcmp(value, "tcp") == 0)
			return 0;
		return rdzv_conf_refuse(
			e, key, value,
			"ddprun's rendezvous only uses TCP; leave it out");
	}
	if (c->etcd.members) {
		rc = etcd_options_take(&c->etcd, key, value, &why);
		if (rc)
			return rc < 0 ? rdzv_conf_refuse(e, key, value,
							 why) : 0;
	}
	log_warn("--rdzv-conf: %s is ignored: ddprun has no use for it", key);
	return 0;
}

/* Copies n bytes of text without the blanks around them; -1: too long. */
static int rdzv_conf_copy_word(char out[WORD_MAX_BYTES], const char *text,
			       size_t n)
{
	while (n && strchr(" \t", text[0])) {
		text++;
		n--;
	}
	while (n && strchr(" \t", text[n - 1]))
		n--;
	if (n >= WORD_MAX_BYTES)
		return -1;
	memcpy(out, text, n);
	out[n] = '\0';
	return 0;
}

/* Quotes around the whole text, which a YAML file can leave, are dropped. */
static struct slice rdzv_conf_unquote(const char *text)
{
	size_t n = strlen(text);

	if (n >= 2 && (text[0] == '\'' || text[0] == '"') &&
	    text[n - 1] == text[0])
		return SLICE(text + 1, n - 2);
	return SLICE(text, n);
}

static size_t rdzv_conf_span(struct slice text, const char *stops)
{
	size_t n = strcspn(text.data, stops);

	return n < text.len ? n : text.len;
}

int rdzv_conf_apply(struct config *c, const char *whole, struct err *e)
{
	char key[WORD_MAX_BYTES], value[WORD_MAX_BYTES];
	struct slice text = rdzv_conf_unquote(whole);
	int join_timeout = 0;

	if (strspn(text.data, " \t") >= text.len)
		return 0;
	for (;;) {
		size_t len = rdzv_conf_span(text, ",");
		size_t name = rdzv_conf_span(text, "=,");
		int rc;

		if (name >= len ||
		    rdzv_conf_copy_word(key, text.data, name) < 0 || !*key ||
		    rdzv_conf_copy_word(value, text.data + name + 1,
					len - name - 1) < 0 ||
		    !*value)
			return err_set(e, ERR_USAGE, "--rdzv-conf: '%.*s': "
				       "give KEY=VALUE,KEY=VALUE",
				       (int)(len > 80 ? 80 : len), text.data);
		rc = rdzv_conf_take(c, key, value, &join_timeout, e);
		if (rc < 0)
			return rc;
		if (len == text.len)
			return 0;
		text = SLICE(text.data + len + 1, text.len - len - 1);
	}
}

/* connection_host.c: the server that this node starts: the job's, where the
 * endpoint is this host's and free, or a candidate, where etcd chooses among
 * those of all nodes; the addresses of the endpoint, and that by which other
 * nodes reach this one. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/local_addrs.h"
#include "base/log.h"
#include "launcher/membership/connection_internal.h"

enum {
	UNHEARD_MS = 1000,     /* another ddprun, between bind and listen */
	UNRESOLVED_MS = 10000, /* tasks of one srun begin together */
};

/* ---- hosting ---- */

/* The kernel has chosen the port: nobody else can know it. */
static void connection_set_chosen_port(struct connection *c)
{
	struct endpoint at = c->options->endpoint;

	at.port = sock_addr_port(&c->addr);
	if (c->options->private_endpoint)
		sock_addr_text(&c->addr, c->where);
	else
		endpoint_text(&at, c->where);
	if (c->options->max_nodes > 1 && !c->options->private_endpoint)
		log_info("the nodes meet at %s; start the others with "
			 "--rdzv-endpoint %s",
			 c->where, c->where);
}

static int connection_start_server(struct connection *c, const int *fds, int n,
				   struct err *e)
{
	const struct rdzv_options *o = c->options;
	const struct server_supervisor_options options = {
		.fds = fds,
		.n = n,
		.job = o->nports || o->etcd.members ? o->job : NULL,
		.torch_job = o->shares_port ? o->job : NULL,
		.web = o->web,
		.journal = o->reconnect_s > 0 ? o->journal : "none",
		.etcd = o->etcd.members ? &o->etcd : NULL,
	};
	int rc = server_supervisor_start(&c->supervisor, &options, &c->auth, e);
	char at[SOCK_TEXT_MAX];

	if (rc == 0 && c->supervisor.auth.methods == WIRE_NO_PROOF)
		log_warn("--auth none: anyone who can reach %s can join job "
			 "'%s', read what it stores there and end it",
			 o->etcd.members ? sock_addr_text(&c->addr, at)
					 : c->where,
			 o->job);
	return rc;
}

/* An option says whether this is the host, or nobody else joins, or the name
 * means a loopback on purpose. */
static int connection_may_be_loopback(const struct connection *c)
{
	const struct rdzv_options *o = c->options;

	return o->is_host == 1 || o->max_nodes == 1 || o->private_endpoint ||
	       local_name_is_own(o->endpoint.host);
}

/* The name of another host may be a loopback here: Debian gives a host's own
 * name 127.0.1.1, and an image may be a copy of that host's. Two nodes would
 * then wait for each other, each at its own server. 0, or ERR_USAGE. */
static int connection_check_loopback(const struct connection *c,
				     const struct sock_addr *where,
				     struct err *e)
{
	const char *name = c->options->endpoint.host;
	char at[SOCK_TEXT_MAX];

	if (!sock_addr_is_loopback(where) || connection_may_be_loopback(c))
		return 0;
	for (int i = 0; i < c->naddrs; i++)
		if (!sock_addr_is_loopback(&c->addrs[i]) &&
		    sock_addr_is_local(&c->addrs[i]))
			return 0;
	return err_set(e, ERR_USAGE,
		       "the rendezvous endpoint '%s' is %s on this host (%s), "
		       "where this node would find only itself; correct %s in "
		       "/etc/hosts here, or give --rdzv-endpoint its address "
		       "(if it is another name of this host, add --rdzv-conf "
		       "is_host=1)",
		       name, sock_addr_host(where, at), c->host, name);
}

/* A name of several nodes, as a headless Service of Kubernetes has: each node
 * would wait for the others at its own server. It may also be a second address
 * of this host, behind NAT, so this is no error. */
static void connection_warn_if_shared(const struct connection *c)
{
	const struct rdzv_options *o = c->options;
	char own[SOCK_TEXT_MAX], other[SOCK_TEXT_MAX];

	if (o->is_host == 1 || o->max_nodes == 1 || o->private_endpoint)
		return;
	for (int i = 0; i < c->naddrs; i++) {
		if (sock_addr_is_local(&c->addrs[i]))
			continue;
		log_warn("the rendezvous endpoint '%s' has several addresses: "
			 "%s of this host (%s), where the job's server now "
			 "runs, and %s; if that is another node, the nodes do "
			 "not meet: give --rdzv-endpoint the name of one node",
			 o->endpoint.host, sock_addr_host(&c->addr, own),
			 c->host, sock_addr_host(&c->addrs[i], other));
		return;
	}
}

/* As connection_host. */
static int connection_host_at(struct connection *c,
			      const struct sock_addr *where, struct err *e)
{
	struct sock_addr at[SOCK_LISTEN_MAX];
	int fds[SOCK_LISTEN_MAX], n, rc;

	if (c->options->is_host == 0 || !sock_addr_is_local(where))
		return -EADDRNOTAVAIL;
	n = listen_addrs_choose(c->options, where, at);
	c->addr = at[0];
	rc = sock_listen_all(at, n, fds, e);
	c->port_taken = rc == -EADDRINUSE;
	if (rc < 0)
		return c->port_taken ? 0 : rc;
	c->addr = at[0];
	rc = connection_check_loopback(c, where, e);
	for (int i = 0; i < n && rc < 0; i++)
		close(fds[i]);
	if (rc < 0)
		return rc;
	if (!c->options->endpoint.port || c->options->private_endpoint)
		connection_set_chosen_port(c);
	rc = connection_start_server(c, fds, n, e);
	if (rc < 0)
		return rc;
	c->role = ROLE_HOST;
	connection_warn_if_shared(c);
	return 1;
}

/* The same, at the first of our ports that is free. */
static int connection_host_at_ports(struct connection *c,
				    const struct sock_addr *where,
				    struct err *e)
{
	const struct rdzv_options *options = c->options;
	struct sock_addr a = *where;
	int rc = 0;

	for (int i = 0; i < options->nports && rc == 0; i++) {
		sock_addr_set_port(&a, options->ports[i]);
		rc = connection_host_at(c, &a, e);
		if (rc == 0)
			log_info("port %u of %s is in use by another process; "
				 "the job's server tries the next one",
				 options->ports[i], c->host);
	}
	if (rc == 0)
		return err_set(e, -EADDRINUSE,
			       "all %d ports that this Slurm step tries are in "
			       "use on %s; choose a free one with "
			       "--rdzv-endpoint %s:PORT",
			       options->nports, c->host,
				       options->endpoint.host);
	return rc;
}

static int connection_host_candidate(struct connection *c, struct err *e)
{
	int fd, rc = sock_listen_all(&c->addr, 1, &fd, e);

	if (rc == 0)
		rc = connection_start_server(c, &fd, 1, e);
	if (rc < 0)
		return rc;
	c->role = ROLE_CANDIDATE;
	return 1;
}

int connection_host(struct connection *c, struct err *e)
{
	int rc = -EADDRNOTAVAIL;

	if (c->options->etcd.members)
		return connection_host_candidate(c, e);
	for (int i = 0; i < c->naddrs && rc == -EADDRNOTAVAIL; i++)
		rc = c->options->nports
			     ? connection_host_at_ports(c, &c->addrs[i], e)
			     : connection_host_at(c, &c->addrs[i], e);
	if (rc == -EADDRNOTAVAIL && c->options->is_host == 1)
		return err_set(e, ERR_USAGE,
			       "%s: the endpoint '%s' is not at an address of "
			       "this host; give an endpoint that is%s",
			       c->options->nports ? "Slurm's first node"
						  : "--rdzv-conf is_host=1",
			       c->where,
			       c->options->nports ? ", with --rdzv-endpoint"
						  : "");
	return rc;
}

/* ---- trouble ---- */

int connection_host_is_unheard(struct connection *c, const struct err *why,
			       struct err *e)
{
	uint64_t now = clock_ms();
	char at[SOCK_TEXT_MAX];

	if (!c->port_taken || c->options->nports ||
	    why->code != -ECONNREFUSED) {
		c->unheard_since_ms = 0;
		return 0;
	}
	if (!c->unheard_since_ms)
		c->unheard_since_ms = now;
	if (now - c->unheard_since_ms < UNHEARD_MS)
		return 0;
	err_set(e, -EADDRINUSE,
		"rendezvous server %s: the port is in use on this host (%s), "
		"but no process listens on it; it may be the local port of an "
		"outgoing connection; choose another port with "
		"--rdzv-endpoint HOST:PORT",
		sock_addr_text(&c->addr, at), c->host);
	return 1;
}

/* If it was the job's server etcd first gives its place to another: it may be
 * stopped for a moment only, and then nothing has happened. */
void connection_host_check_stopped(struct connection *c)
{
	pid_t pid = c->supervisor.server.pid;
	uint64_t ttl_ms = (uint64_t)c->options->etcd.ttl_s * 1000;

	if (c->role != ROLE_CANDIDATE || c->link.moved ||
	    !server_process_is_stopped(&c->supervisor.server))
		return;
	if (c->logged_stopped != pid)
		log_warn("this node's ddprdzv (pid %d) is stopped (SIGSTOP?), "
			 "and only it knows where the job's server is: another "
			 "one replaces it unless it continues",
			 (int)pid);
	c->logged_stopped = pid;
	if (!c->own_lost_ms || clock_ms() - c->own_lost_ms >= ttl_ms)
		kill(pid, SIGKILL);
}

int connection_is_own_candidate(const struct connection *c)
{
	return c->role == ROLE_CANDIDATE && !c->link.moved;
}

int connection_reaped(struct connection *c, pid_t pid, int status)
{
	struct err e = ERR_INIT;
	enum server_end how =
		server_supervisor_reaped(&c->supervisor, pid, status, &e);

	if (how != SERVER_LOST || c->phase == CONNECTION_OVER)
		return how != SERVER_NOT_OURS;
	if (c->phase == CONNECTION_IN && c->role == ROLE_CANDIDATE &&
	    !connection_is_own_candidate(c)) {
		log_warn("%s; if the job's server is lost, this node cannot "
			 "find another",
			 e.text);
		c->candidate_error = e;
		return 1;
	}
	if (c->search == SEARCH_FIRST || !c->events->on_away(c, &e, 1))
		connection_fail(c, &e);
	else if (c->phase != CONNECTION_OVER)
		connection_stop_search(c);
	return 1;
}

/* ---- where other nodes reach this one ---- */

void connection_own_addr(struct connection *c, char *text)
{
	const struct rdzv_options *options = c->options;
	struct sock_addr local;
	int is_host = c->role == ROLE_HOST;

	if (options->local_addr)
		snprintf(text, SOCK_TEXT_MAX, "%s", options->local_addr);
	else if (c->role == ROLE_CANDIDATE)
		sock_addr_scoped(&c->addr, text);
	else if (is_host && listen_addrs_is_loopback(options->endpoint.host))
		sock_addr_scoped(&c->addr, text);
	else if (is_host && c->is_nameless)
		launch_env_own_addr(options->env, &options->endpoint, text);
	else if (is_host)
		snprintf(text, SOCK_TEXT_MAX, "%s", options->endpoint.host);
	else if (async_client_local_addr(&c->link, &local) == 0)
		sock_addr_scoped(&local, text);
	else
		snprintf(text, SOCK_TEXT_MAX, "%s", c->host);
}

/* ---- where our server listens ---- */

int listen_addrs_is_loopback(const char *host)
{
	struct in_addr v4;

	if (strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0)
		return 1;
	return inet_pton(AF_INET, host, &v4) == 1 &&
	       ntohl(v4.s_addr) >> 24 == 127;
}

/* Debian gives a host's own name the address 127.0.1.1, which no other host can
 * reach. */
static int listen_addrs_is_own_name(const struct rdzv_options *c,
				    const struct sock_addr *a)
{
	return c->max_nodes > 1 && sock_addr_is_loopback(a) &&
	       !listen_addrs_is_loopback(c->endpoint.host);
}

/* Slurm names another node: our address on the interface that leads to it. */
static int listen_addrs_towards_step(const struct rdzv_options *c,
				     const struct sock_addr *where,
				     struct sock_addr *own)
{
	struct endpoint other = {.port = sock_addr_port(where)};
	struct sock_addr peer;
	struct err e;

	if (!c->env->second_host[0] || !c->nports)
		return 0;
	snprintf(other.host, sizeof(other.host), "%s", c->env->second_host);
	return sock_resolve(&other, &peer, 1, &e) >= 1 &&
	       sock_addr_towards(&peer, own) == 0 &&
	       !sock_addr_is_loopback(own) &&
	       own->ss.ss_family == where->ss.ss_family;
}

/* The address that the user chose, if it is this host's. */
static int listen_addrs_find_chosen(const struct rdzv_options *c,
				    struct sock_addr *own)
{
	struct endpoint at = {.port = 0};

	if (!c->local_addr)
		return 0;
	snprintf(at.host, sizeof(at.host), "%s", c->local_addr);
	return sock_resolve(&at, own, 1, NULL) >= 1 &&
	       !sock_addr_is_loopback(own) && sock_addr_is_local(own);
}

/* Other hosts resolve the name differently: it may mean any of these there. */
static int listen_addrs_add_outside(struct sock_addr *out, int n)
{
	struct sock_addr own[SOCK_LISTEN_MAX];
	int max = SOCK_LISTEN_MAX - n, found = local_addrs_external(own, max);

	for (int i = 0; i < found; i++)
		n = sock_addr_add(out, n, SOCK_LISTEN_MAX, &own[i]);
	return n;
}

static void listen_addrs_log(const struct sock_addr *out, int n)
{
	char text[SOCK_TEXT_MAX];

	for (int i = 0; n > 1 && i < n; i++)
		log_debug("the server listens on %s",
			  sock_addr_text(&out[i], text));
}

int listen_addrs_choose(const struct rdzv_options *c,
			const struct sock_addr *where,
			struct sock_addr *out)
{
	struct sock_addr own;
	int n = 0;

	if (listen_addrs_towards_step(c, where, &own)) {
		out[n++] = own;
		/* other nodes may use the endpoint's address all the same */
		if (!sock_addr_is_loopback(where))
			n = sock_addr_add(out, n, SOCK_LISTEN_MAX, where);
	} else if (listen_addrs_is_own_name(c, where)) {
		out[n++] = *where;
		sock_addr_number(where->ss.ss_family == AF_INET ? "127.0.0.1"
								: "::1",
				 0, &own);
		n = sock_addr_add(out, n, SOCK_LISTEN_MAX, &own);
		n = listen_addrs_find_chosen(c, &own)
			    ? sock_addr_add(out, n, SOCK_LISTEN_MAX, &own)
			    : listen_addrs_add_outside(out, n);
	} else {
		out[n++] = *where;
	}
	for (int i = 0; i < n; i++)
		sock_addr_set_port(&out[i], sock_addr_port(where));
	listen_addrs_log(out, n);
	return n;
}

/* ---- a candidate's ---- */

/* The first that other nodes can reach, if there are others. */
static int listen_addrs_pick(const struct rdzv_options *c,
			     const struct sock_addr *at,
			     int n, struct sock_addr *out)
{
	for (int i = 0; i < n; i++) {
		if (c->max_nodes > 1 && sock_addr_is_loopback(&at[i]))
			continue;
		*out = at[i];
		return 1;
	}
	return 0;
}

/* A name may mean loopback here, as this host's own does on Debian: then
 * another of its addresses is better. */
static int listen_addrs_resolve_chosen(const struct rdzv_options *c,
				       struct sock_addr *out, struct err *e)
{
	struct endpoint at = {.port = 0};
	struct sock_addr own[SOCK_LISTEN_MAX];
	int n;

	snprintf(at.host, sizeof(at.host), "%s", c->local_addr);
	n = local_addrs_of(&at, own, SOCK_LISTEN_MAX, e);
	if (n < 0)
		return n;
	if (n == 0)
		return err_set(e, ERR_USAGE,
			       "%s %s is not an address of this host: its "
			       "ddprdzv could not listen there",
			       c->by_interface ? "--interface" : "--local-addr",
			       c->local_addr);
	if (!listen_addrs_pick(c, own, n, out))
		*out = own[0];
	return 0;
}

/* Towards the first member on another host. */
static int listen_addrs_towards_etcd(const struct rdzv_options *c,
				     struct sock_addr *out, struct err *e)
{
	struct endpoint member[ETCD_OPTIONS_MEMBERS_MAX];
	struct sock_addr peer, own;
	int n = etcd_options_members(c->etcd.members, member, e);
	int rc = 0, some = 0;

	for (int i = 0; i < n; i++) {
		rc = sock_resolve(&member[i], &peer, 1, e);
		if (rc < 0 || sock_addr_towards(&peer, &own) < 0)
			continue;
		if (listen_addrs_pick(c, &own, 1, out))
			return 1;
		*out = own;
		some = 1;
	}
	if (n < 0 || some)
		return n < 0 ? n : 0;
	return rc < 0 ? rc
		      : err_set(e, -EHOSTUNREACH,
				"no network of this host leads to %s; choose "
				"an address with --local-addr HOST",
				c->etcd.members);
}

int listen_addrs_choose_candidate(const struct rdzv_options *c,
				  struct sock_addr *out,
				  struct err *e)
{
	struct sock_addr own[SOCK_LISTEN_MAX];
	int rc = c->local_addr ? listen_addrs_resolve_chosen(c, out, e)
				     : listen_addrs_towards_etcd(c, out, e);

	/* the members are on this host, which says nothing about the network */
	if (rc == 0 && !c->local_addr)
		listen_addrs_pick(c, own,
				  local_addrs_external(own, SOCK_LISTEN_MAX),
				  out);
	sock_addr_set_port(out, 0);
	return rc < 0 ? rc : 0;
}

/* ---- where the server is ---- */

/* The endpoint is not the user's: the launcher names the first node. */
static int connection_is_launchers(const struct rdzv_options *o)
{
	return o->nports || (o->env->first_host[0] &&
			     !strcmp(o->endpoint.host, o->env->first_host));
}

/* The endpoint's addresses; blocks on DNS. Other nodes may be started before
 * the first one's name is known. Slurm's are named, and it knows addresses. */
int connection_resolve(struct connection *c, struct err *e)
{
	const struct rdzv_options *o = c->options;
	struct endpoint here = {"127.0.0.1", 0};
	int is_ours = connection_is_launchers(o);
	int waits = o->max_nodes > 1 && !o->nports && !o->private_endpoint &&
		    !(is_ours && o->is_host == 1);
	struct name_wait w = {.timeout_s = waits ? o->timeout_s : 0};
	int rc, is_guess = 0;

	if (o->etcd.members)
		return listen_addrs_choose_candidate(o, &c->addr, e);
	rc = name_wait_resolve(&w, o->private_endpoint ? &here : &o->endpoint,
			       c->addrs, CONNECTION_ADDRS_MAX, e);
	c->ended_by = w.signal;
	if (rc >= 0 || !is_ours || w.signal)
		return rc;
	rc = launch_env_resolve(o->env, &o->endpoint,
				o->is_host == 1, c->addrs,
				CONNECTION_ADDRS_MAX, &is_guess, e);
	c->is_nameless = rc > 0;
	if (is_guess) {
		c->unresolved = *e;
		c->unresolved_until_ms = clock_ms() + UNRESOLVED_MS;
	}
	return rc;
}

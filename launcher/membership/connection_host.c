/* connection_host.c: the server of this node: where the endpoint is this
 * host's, and free; or one of all nodes', where etcd lets one of them be the
 * job's. */
#include "launcher/membership/connection_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/config/step_address.h"
#include "launcher/membership/listen_addrs.h"

enum { UNHEARD_MS = 1000 }; /* another ddprun, between bind and listen */

/* Who is not here can be told no other way. */
static void tell_port(const struct connection *c)
{
	if (c->config->max_nodes > 1 && !c->config->private_endpoint)
		log_info("the nodes meet at %s; start the others with "
			 "--rdzv-endpoint %s",
			 c->where, c->where);
}

/* The kernel has chosen the port. */
static void take_port(struct connection *c)
{
	struct endpoint at = c->config->endpoint;

	at.port = sock_addr_port(&c->addr);
	if (c->config->private_endpoint)
		sock_addr_text(&c->addr, c->where);
	else
		endpoint_text(&at, c->where);
	tell_port(c);
}

static int start_server(struct connection *c, const int *fds, int n,
			struct err *e)
{
	const struct config *config = c->config;
	const struct server_supervisor_options order = {
		.fds = fds,
		.n = n,
		.job = config->nports || config->etcd.members ? config->job
							      : NULL,
		.journal = config->reconnect_s > 0 ? config->journal : "none",
		.etcd = config->etcd.members ? &config->etcd : NULL,
	};
	int rc = server_supervisor_start(&c->supervisor, &order, &c->auth, e);
	char at[SOCK_TEXT_MAX];

	if (rc == 0 && c->supervisor.auth.methods == WIRE_NO_PROOF)
		log_warn("--auth none: whoever reaches %s can join job '%s', "
			 "read what it stores there and end it",
			 config->etcd.members ? sock_addr_text(&c->addr, at)
					      : c->where,
			 config->job);
	return rc;
}

/* 1: we host; 0: someone else has the port, c->addr says where; else an
 * error, -EADDRNOTAVAIL if the address is not ours. */
static int host_at(struct connection *c, const struct sock_addr *where,
		   struct err *e)
{
	struct sock_addr at[SOCK_LISTEN_MAX];
	int fds[SOCK_LISTEN_MAX], n, rc;

	if (c->config->is_host == 0 || !sock_addr_is_local(where))
		return -EADDRNOTAVAIL;
	n = listen_addrs_choose(c->config, where, at);
	c->addr = at[0];
	rc = sock_listen_all(at, n, fds, e);
	c->port_taken = rc == -EADDRINUSE;
	if (rc < 0)
		return c->port_taken ? 0 : rc;
	c->addr = at[0];
	if (!c->config->endpoint.port || c->config->private_endpoint)
		take_port(c);
	rc = start_server(c, fds, n, e);
	if (rc < 0)
		return rc;
	c->hosts = 1;
	return 1;
}

/* As host_at, at the first of our ports that nobody has. */
static int host_at_ports(struct connection *c, const struct sock_addr *where,
			 struct err *e)
{
	const struct config *config = c->config;
	struct sock_addr a = *where;
	int rc = 0;

	for (int i = 0; i < config->nports && rc == 0; i++) {
		sock_addr_set_port(&a, config->ports[i]);
		rc = host_at(c, &a, e);
		if (rc == 0)
			log_info("port %u of %s is another process's; the "
				 "job's server takes the next",
				 config->ports[i], c->host);
	}
	if (rc == 0)
		return err_set(e, -EADDRINUSE,
			       "all %d ports that this step of Slurm's tries "
			       "are taken on %s; give a free one, with "
			       "--rdzv-endpoint %s:PORT",
			       config->nports, c->host, config->endpoint.host);
	return rc;
}

/* Where etcd says who is the server each node has one that may be. */
static int connection_host_candidate(struct connection *c, struct err *e)
{
	int fd, rc = sock_listen_all(&c->addr, 1, &fd, e);

	if (rc == 0)
		rc = start_server(c, &fd, 1, e);
	c->is_candidate = rc == 0;
	return rc < 0 ? rc : 1;
}

int connection_host(struct connection *c, struct err *e)
{
	int rc = -EADDRNOTAVAIL;

	if (c->config->etcd.members)
		return connection_host_candidate(c, e);
	for (int i = 0; i < c->naddrs && rc == -EADDRNOTAVAIL; i++)
		rc = c->config->nports ? host_at_ports(c, &c->addrs[i], e)
				       : host_at(c, &c->addrs[i], e);
	if (rc == -EADDRNOTAVAIL && c->config->is_host == 1)
		return err_set(e, ERR_USAGE,
			       "%s: no address of the endpoint "
			       "'%s' is this host's; give one that is%s",
			       c->config->nports ? "Slurm's first node"
						 : "--rdzv-conf is_host=1",
			       c->where,
			       c->config->nports ? ", with --rdzv-endpoint"
						 : "");
	return rc;
}

int connection_host_is_unheard(struct connection *c, const struct err *why,
			       struct err *e)
{
	uint64_t now = clock_ms();
	char at[SOCK_TEXT_MAX];

	if (!c->port_taken || c->config->nports || why->code != -ECONNREFUSED) {
		c->unheard_since_ms = 0;
		return 0;
	}
	if (!c->unheard_since_ms)
		c->unheard_since_ms = now;
	if (now - c->unheard_since_ms < UNHEARD_MS)
		return 0;
	err_set(e, -EADDRINUSE,
		"rendezvous server %s: the port is in use on "
		"this host (%s), but nobody listens there; it may be the local "
		"port of an outgoing connection; choose another port with "
		"--rdzv-endpoint HOST:PORT",
		sock_addr_text(&c->addr, at), c->host);
	return 1;
}

/* If it was the job's server etcd gives its place away first: it may be stopped
 * for a moment only, and then nothing has happened. */
void connection_host_check_stopped(struct connection *c)
{
	pid_t pid = c->supervisor.server.pid;
	uint64_t ttl_ms = (uint64_t)c->config->etcd.ttl_s * 1000;

	if (!c->is_candidate || c->link.moved ||
	    !server_process_is_stopped(&c->supervisor.server))
		return;
	if (c->said_stopped != pid)
		log_warn("this node's ddprdzv (pid %d) is stopped (SIGSTOP?), "
			 "and nobody else tells it where the job's server is: "
			 "another takes its place unless it goes on",
			 (int)pid);
	c->said_stopped = pid;
	if (!c->lost_own || clock_ms() - c->lost_ms >= ttl_ms)
		kill(pid, SIGKILL);
}

void connection_own_addr(struct connection *c, char *text)
{
	const struct config *config = c->config;
	struct sock_addr local;

	if (config->local_addr_given)
		snprintf(text, SOCK_TEXT_MAX, "%s", config->local_addr);
	else if (c->is_candidate)
		sock_addr_scoped(&c->addr, text);
	else if (c->hosts && listen_addrs_is_loopback(config->endpoint.host))
		sock_addr_scoped(&c->addr, text);
	else if (c->hosts && c->nameless)
		step_address_own(config, text);
	else if (c->hosts)
		snprintf(text, SOCK_TEXT_MAX, "%s", config->endpoint.host);
	else if (async_client_local_addr(&c->link, &local) == 0)
		sock_addr_scoped(&local, text);
	else
		snprintf(text, SOCK_TEXT_MAX, "%s", c->host);
}

/* listen_addrs.c: an address that other nodes reach, and no more than needed.
 */
#include "launcher/membership/listen_addrs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/local_addrs.h"

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

/* listen_addrs.c: never the wildcard: a server that hears all interfaces hears
 * those who have no business there. */
#include "launcher/membership/listen_addrs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/local_addrs.h"
#include "base/log.h"

int listen_addrs_is_loopback(const char *host)
{
	struct in_addr v4;

	if (strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0)
		return 1;
	return inet_pton(AF_INET, host, &v4) == 1 &&
	       ntohl(v4.s_addr) >> 24 == 127;
}

/* Debian gives a host's own name the address 127.0.1.1, where no other host
 * could come. */
static int is_own_name(const struct config *c, const struct sock_addr *a)
{
	return c->max_nodes > 1 && sock_addr_is_loopback(a) &&
	       !listen_addrs_is_loopback(c->endpoint.host);
}

/* Where Slurm names another node: our address of the interface to it. */
static int towards_step(const struct config *c, const struct sock_addr *where,
			struct sock_addr *own)
{
	struct endpoint other = {.port = sock_addr_port(where)};
	struct sock_addr peer;
	struct err e;

	if (!c->slurm.second[0] || !c->nports)
		return 0;
	snprintf(other.host, sizeof(other.host), "%s", c->slurm.second);
	return sock_resolve(&other, &peer, 1, &e) >= 1 &&
	       sock_addr_towards(&peer, own) == 0 &&
	       !sock_addr_is_loopback(own) &&
	       own->ss.ss_family == where->ss.ss_family;
}

/* What the user says is this host's address, if it is. */
static int is_said(const struct config *c, struct sock_addr *own)
{
	struct endpoint at = {.port = 0};

	if (!c->local_addr_given)
		return 0;
	snprintf(at.host, sizeof(at.host), "%s", c->local_addr);
	return sock_resolve(&at, own, 1, NULL) >= 1 &&
	       !sock_addr_is_loopback(own) && sock_addr_is_local(own);
}

/* The others look behind the name, and nobody here knows what they find. */
static int add_outside(struct sock_addr *out, int n)
{
	struct sock_addr own[SOCK_LISTEN_MAX];
	int max = SOCK_LISTEN_MAX - n, found = local_addrs_external(own, max);

	for (int i = 0; i < found; i++)
		n = sock_addr_add(out, n, SOCK_LISTEN_MAX, &own[i]);
	return n;
}

static void tell(const struct sock_addr *out, int n)
{
	char text[SOCK_TEXT_MAX];

	for (int i = 0; n > 1 && i < n; i++)
		log_debug("the server listens at %s",
			  sock_addr_text(&out[i], text));
}

int listen_addrs_choose(const struct config *c, const struct sock_addr *where,
			struct sock_addr *out)
{
	struct sock_addr own;
	int n = 0;

	if (towards_step(c, where, &own)) {
		out[n++] = own;
		/* others may know this host by the other address */
		if (!sock_addr_is_loopback(where))
			n = sock_addr_add(out, n, SOCK_LISTEN_MAX, where);
	} else if (is_own_name(c, where)) {
		out[n++] = *where;
		sock_addr_number(where->ss.ss_family == AF_INET ? "127.0.0.1"
								: "::1",
				 0, &own);
		n = sock_addr_add(out, n, SOCK_LISTEN_MAX, &own);
		n = is_said(c, &own)
			    ? sock_addr_add(out, n, SOCK_LISTEN_MAX, &own)
			    : add_outside(out, n);
	} else {
		out[n++] = *where;
	}
	for (int i = 0; i < n; i++)
		sock_addr_set_port(&out[i], sock_addr_port(where));
	tell(out, n);
	return n;
}

/* ---- one of all nodes' ---- */

/* The first that others can come to, where there are others. */
static int choose(const struct config *c, const struct sock_addr *at, int n,
		  struct sock_addr *out)
{
	for (int i = 0; i < n; i++) {
		if (c->max_nodes > 1 && sock_addr_is_loopback(&at[i]))
			continue;
		*out = at[i];
		return 1;
	}
	return 0;
}

/* A name may mean loopback here, as this host's own does on Debian; a number
 * means what it says. */
static int said(const struct config *c, struct sock_addr *out, struct err *e)
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
			       "%s %s is no address of this "
			       "host's: this node's ddprdzv could not listen "
			       "there",
			       c->interface ? "--interface" : "--local-addr",
			       c->local_addr);
	if (!choose(c, own, n, out))
		*out = own[0];
	return 0;
}

/* Towards the first member that is elsewhere. */
static int towards_etcd(const struct config *c, struct sock_addr *out,
			struct err *e)
{
	struct endpoint member[ETCD_PLACE_MEMBERS_MAX];
	struct sock_addr peer, own;
	int n = etcd_place_members(c->etcd.members, member, e);
	int rc = 0, some = 0;

	for (int i = 0; i < n; i++) {
		rc = sock_resolve(&member[i], &peer, 1, e);
		if (rc < 0 || sock_addr_towards(&peer, &own) < 0)
			continue;
		if (choose(c, &own, 1, out))
			return 1;
		*out = own;
		some = 1;
	}
	if (n < 0 || some)
		return n < 0 ? n : 0;
	return rc < 0 ? rc
		      : err_set(e, -EHOSTUNREACH,
				"no network of this "
				"host's leads to %s; --local-addr HOST "
				"says which to use",
				c->etcd.members);
}

int listen_addrs_choose_candidate(const struct config *c, struct sock_addr *out,
				  struct err *e)
{
	struct sock_addr own[SOCK_LISTEN_MAX];
	int rc =
		c->local_addr_given ? said(c, out, e) : towards_etcd(c, out, e);

	/* an etcd on each node, or one for all nodes here: nobody knows */
	if (rc == 0 && !c->local_addr_given)
		choose(c, own, local_addrs_external(own, SOCK_LISTEN_MAX), out);
	sock_addr_set_port(out, 0);
	return rc < 0 ? rc : 0;
}

/* listen_addrs.h: at which of this host's addresses our server listens: never
 * at the wildcard, which includes networks that no node of the job uses. It
 * listens at the address that the other nodes get, and where that is a name
 * that means loopback here, also at the addresses that the name may have
 * elsewhere. Owns nothing; looking up a name may block on DNS and fail. */
#ifndef LAUNCHER_LISTEN_ADDRS_H
#define LAUNCHER_LISTEN_ADDRS_H

#include "launcher/membership/rdzv_options.h"

/* where: the endpoint's address, which is this host's; out has room for
 * SOCK_LISTEN_MAX. Returns how many; this node itself connects to the first.
 * All have where's port. */
int listen_addrs_choose(const struct rdzv_options *c,
			const struct sock_addr *where,
			struct sock_addr *out);

/* The one address, with port 0, at which a candidate of this node listens and
 * other nodes reach it: the user's choice; else the one from which this host
 * reaches a member of etcd, or another one where that is loopback. May block on
 * DNS; an error names the host. */
int listen_addrs_choose_candidate(const struct rdzv_options *c,
				  struct sock_addr *out,
				  struct err *e);

/* 1 for localhost and the like, which mean the same on every host. Pure. */
int listen_addrs_is_loopback(const char *host);

#endif

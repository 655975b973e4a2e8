/* listen_addrs.h: at which of this host's addresses the server that we start
 * listens: at the one that others are told, and where that is a name that means
 * loopback here at those that they may find behind it. */
#ifndef LAUNCHER_LISTEN_ADDRS_H
#define LAUNCHER_LISTEN_ADDRS_H

#include "launcher/config/config.h"

/* out has room for SOCK_LISTEN_MAX; where is the endpoint's address, which is
 * this host's. Returns how many; the first is the one by which this node itself
 * goes there. All have where's port. */
int listen_addrs_choose(const struct config *c, const struct sock_addr *where,
			struct sock_addr *out);

/* Where a server of this node listens that is one of all nodes' (etcd): at one
 * address, by which other nodes reach it: what the user says; else that by
 * which this host goes to a member of etcd, or another of its own where that is
 * loopback. Port 0. May block on DNS; an error names the host. */
int listen_addrs_choose_candidate(const struct config *c, struct sock_addr *out,
				  struct err *e);

/* 1 for localhost and the like, which mean the same on every host. Pure. */
int listen_addrs_is_loopback(const char *host);

#endif

/* hosting.h: at which of this host's addresses the server that we start
 * listens: at the one that others are told, and where that is a name that means
 * loopback here at those that they may find behind it. */
#ifndef LAUNCHER_HOSTING_H
#define LAUNCHER_HOSTING_H

#include "launcher/config.h"

/* out has room for SOCK_LISTEN_MAX; where is the endpoint's address, which is
 * this host's. Returns how many; the first is the one by which this node itself
 * goes there. All have where's port. */
int hosting_addrs(const struct config *c, const struct sock_addr *where,
		  struct sock_addr *out);

/* 1 for localhost and the like, which mean the same on every host. Pure. */
int hosting_is_loopback(const char *host);

#endif

/* connection_internal.h: shared by connection.c, which connects, and
 * connection_host.c, which hosts. */
#ifndef LAUNCHER_CONNECTION_INTERNAL_H
#define LAUNCHER_CONNECTION_INTERNAL_H

#include "base/sock.h"
#include "launcher/membership/connection.h"
#include "launcher/membership/rdzv_options.h"

/* connection.c: ends it for good: on_lost. */
void connection_fail(struct connection *c, const struct err *why);

/* connection_host.c. The endpoint's addresses into c->addrs: how many, or an
 * error; blocks on DNS. */
int connection_resolve(struct connection *c, struct err *e);
/* 1: a server of ours runs and listens at c->addr, as
 * c->role says; 0: another process has the port, c->addr says where; else an
 * error, -EADDRNOTAVAIL if the address is not ours. */
int connection_host(struct connection *c, struct err *e);
/* A candidate of ours sends nothing: if it is stopped that is logged, and
 * another takes its place. */
void connection_host_check_stopped(struct connection *c);
/* The endpoint's port is ours, and for a while it could be neither bound nor
 * connected to: some process holds it and does not listen. 1 with text. */
int connection_host_is_unheard(struct connection *c, const struct err *why,
			       struct err *e);

/* ---- name_wait.c ----
 *
 * Resolves the name of the first node, and waits for a name that does not
 * resolve yet: a pod's name gets its record when the pod runs. */

struct name_wait {
	double timeout_s; /* 0: does not wait for a name that is not known */
	int signal; /* out: SIGTERM, SIGINT, SIGHUP or SIGQUIT ended it */
};

/* As sock_resolve, within timeout_s; the first failure to resolve is logged.
 * The resolver may block for long, so it runs in a thread of its own, which is
 * left behind if a signal or the time limit ends the wait: it ends when the
 * resolver returns, and exit() does not wait for it. ERR_TIMEOUT: no answer in
 * time. -EINTR: a signal, which is consumed. Max is at most NAME_WAIT_MAX. */
enum { NAME_WAIT_MAX = 8 };
int name_wait_resolve(struct name_wait *w, const struct endpoint *ep,
		      struct sock_addr *out, int max, struct err *e);

/* Nobody answers at the endpoint's addresses: looks the name up again, every
 * LOOK_MS at most, in a thread; c->addrs changes if the record does. A pod that
 * replaces another has a new address. */
void connection_look_again(struct connection *c);
void connection_stop_looking(struct connection *c);

/* ---- where our server listens ----
 *
 * The addresses of this host at which our server listens: never the wildcard,
 * which includes networks that no node of the job uses. It listens at the
 * address that the other nodes get, and where that is a name that means
 * loopback here, also at the addresses that the name may have elsewhere. Owns
 * nothing; looking up a name may block on DNS and fail. */

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

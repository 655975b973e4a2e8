/* exchange.h: what the nodes of a check tell each other, through the store of
 * their round: each sets a value and gets those of all. Owns the connection to
 * the store; the environment says where that is (core/env.h). */
#ifndef SDK_CHECK_EXCHANGE_H
#define SDK_CHECK_EXCHANGE_H

#include "base/buf.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/kv/kv.h"

struct exchange {
	struct ddp__env env;
	char host[SOCK_HOST_MAX]; /* this host's name */
	struct ddp__kv *kv;
	int me, n; /* this node's rank, and the number of nodes */
};

/* Connects. ERR_USAGE: not started by ddprun. */
int exchange_open(struct exchange *x, struct err *e);
void exchange_close(struct exchange *x); /* also after an error */

/* Waits for all nodes, at most time_ms: values[n] are then the caller's to
 * release, also after an error. what: the values' name, new each time.
 * meanwhile, unless it is NULL, is called again and again while nodes are
 * missing. ERR_TIMEOUT names the node that is missing. */
int exchange_gather(struct exchange *x, const char *what, struct slice mine,
		    struct buf *values, int time_ms,
		    void (*meanwhile)(void *arg), void *arg, struct err *e);

/* The first sets this node's flag; the second waits for that of `node`, for
 * ever: the round ends, and this process with it, if it is never set. */
int exchange_set(struct exchange *x, const char *what, struct err *e);
int exchange_wait(struct exchange *x, const char *what, int node,
		  struct err *e);

#endif

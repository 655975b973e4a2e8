/* tcp_collective.h: collectives among the hosts' leaders, over tcp.h, in place.
 * Each is called by all leaders with the same call, which is in t->call, and
 * leaves the same bits on all. Errors are ddp__tcp_run's, and -ENOMEM. */
#ifndef SDK_TCP_COLLECTIVE_H
#define SDK_TCP_COLLECTIVE_H

#include "worker-sdk/tcp.h"

/* buf[0..count) becomes the reduction over all hosts, divided by divisor where
 * the call's op is DDP_AVG. */
int ddp__tcp_all_reduce(struct ddp__tcp *t, void *buf, size_t count,
			int divisor, struct err *e);

/* begin[h]..begin[h+1] are the elements of buf that host h shall have: those
 * of this host become the reduction; the others' are left in pieces. */
int ddp__tcp_reduce_scatter(struct ddp__tcp *t, void *buf, const size_t *begin,
			    int divisor, struct err *e);

/* The same ranges, in bytes: each host gives its own and gets all others. */
int ddp__tcp_all_gather(struct ddp__tcp *t, void *buf, const size_t *begin,
			struct err *e);

int ddp__tcp_broadcast(struct ddp__tcp *t, void *buf, size_t size, int root,
		       struct err *e);

int ddp__tcp_barrier(struct ddp__tcp *t, struct err *e);

#endif

/* tcp_collective.h: collectives among the hosts' leaders, as operations of
 * tcp_op.h. Each is prepared by all leaders with the same call, of which a copy
 * is kept, and leaves the same bits on all. Buffers and ranges are the caller's
 * and must last until the operation has ended.
 *
 * begin[h]..begin[h + 1], n + 1 numbers, is what belongs to host h. Which way
 * data goes depends on sizes, the number of hosts and of rails only: never on
 * what was there first. f16 and bf16 are rounded where they leave a host; where
 * ddp__is_scaled, each host gives the sum of its ranks as ddp__add_scaled takes
 * it. */
#ifndef SDK_TCP_COLLECTIVE_H
#define SDK_TCP_COLLECTIVE_H

#include "worker-sdk/tcp/tcp_op.h"

/* buf[0..count) becomes the reduction over all hosts by call->type and op,
 * divided by divisor where the op is DDP_AVG. */
void ddp__tcp_all_reduce(struct ddp__tcp_op *op, struct ddp__tcp *t,
			 const struct ddp__call *call, void *buf, size_t count,
			 int divisor);
/* The same, but only on host root; the others' buf is left in pieces. */
void ddp__tcp_reduce(struct ddp__tcp_op *op, struct ddp__tcp *t,
		     const struct ddp__call *call, void *buf, size_t count,
		     int root, int divisor);
/* begin in elements: this host's of buf become the reduction; the others' are
 * left in pieces. */
void ddp__tcp_reduce_scatter(struct ddp__tcp_op *op, struct ddp__tcp *t,
			     const struct ddp__call *call, void *buf,
			     const size_t *begin, int divisor);
/* begin in bytes: each host gives its own and gets all others'. */
void ddp__tcp_all_gather(struct ddp__tcp_op *op, struct ddp__tcp *t,
			 const struct ddp__call *call, void *buf,
			 const size_t *begin);
/* begin in bytes: mine is this host's; all is used on host root only, where
 * mine is in its place already. */
void ddp__tcp_gather(struct ddp__tcp_op *op, struct ddp__tcp *t,
		     const struct ddp__call *call, const void *mine, void *all,
		     const size_t *begin, int root);
/* As gather, the other way. */
void ddp__tcp_scatter(struct ddp__tcp_op *op, struct ddp__tcp *t,
		      const struct ddp__call *call, const void *all, void *mine,
		      const size_t *begin, int root);
void ddp__tcp_broadcast(struct ddp__tcp_op *op, struct ddp__tcp *t,
			const struct ddp__call *call, void *buf, size_t size,
			int root);
/* Bytes from[h]..from[h + 1] of send go to host h, and what host h sends to
 * this one to to[h] of recv. What this host has for itself is left to the
 * caller. send and recv do not overlap. */
void ddp__tcp_all_to_all(struct ddp__tcp_op *op, struct ddp__tcp *t,
			 const struct ddp__call *call, const void *send,
			 const size_t *from, void *recv, const size_t *to);
void ddp__tcp_barrier(struct ddp__tcp_op *op, struct ddp__tcp *t,
		      const struct ddp__call *call);

#endif

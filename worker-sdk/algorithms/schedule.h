/* schedule.h: collectives among the leaders of hosts, over any transport that
 * has the steps of transport.h. Each function picks an algorithm (ring,
 * recursive doubling, tree, direct) and prepares a schedule; run it, or advance
 * it until it has ended, and then release it.
 *
 * All leaders prepare the same call, which is copied; buffers and ranges are
 * the caller's and must last until the schedule has ended. Every host gets the
 * same bits: the choice depends only on sizes, the number of hosts and the
 * call, never on the order of arrival. f16 and bf16 are rounded where they
 * leave a host; where ddp__is_scaled, each host gives the sum of its ranks as
 * ddp__add_scaled takes it.
 *
 * begin[h]..begin[h + 1] is the part that belongs to host h; begin has n + 1
 * numbers. */
#ifndef SDK_SCHEDULE_H
#define SDK_SCHEDULE_H

#include "worker-sdk/algorithms/transport.h"

/* buf[0..count) becomes the reduction over all hosts by call->type and op,
 * divided by divisor where the op is DDP_AVG. */
void ddp__schedule_all_reduce(struct ddp__schedule *s,
			      const struct ddp__path *p,
			      const struct ddp__call *call, void *buf,
			      size_t count, int divisor);
/* The same, but only on host root; the other hosts' buf is undefined. */
void ddp__schedule_reduce(struct ddp__schedule *s, const struct ddp__path *p,
			  const struct ddp__call *call, void *buf, size_t count,
			  int root, int divisor);
/* begin in elements: this host's part of buf becomes the reduction; the other
 * parts are undefined. */
void ddp__schedule_reduce_scatter(struct ddp__schedule *s,
				  const struct ddp__path *p,
				  const struct ddp__call *call, void *buf,
				  const size_t *begin, int divisor);
/* begin in bytes: each host gives its part of buf and gets the others'. */
void ddp__schedule_all_gather(struct ddp__schedule *s,
			      const struct ddp__path *p,
			      const struct ddp__call *call, void *buf,
			      const size_t *begin);
/* begin in bytes: mine is this host's part; all is used only on host root,
 * which has put its own part in place already. */
void ddp__schedule_gather(struct ddp__schedule *s, const struct ddp__path *p,
			  const struct ddp__call *call, const void *mine,
			  void *all, const size_t *begin, int root);
/* The reverse of gather. */
void ddp__schedule_scatter(struct ddp__schedule *s, const struct ddp__path *p,
			   const struct ddp__call *call, const void *all,
			   void *mine, const size_t *begin, int root);
void ddp__schedule_broadcast(struct ddp__schedule *s, const struct ddp__path *p,
			     const struct ddp__call *call, void *buf,
			     size_t size, int root);
/* Bytes from[h]..from[h + 1] of send are for host h; the data from host h
 * arrives at to[h] of recv. The caller copies this host's own part. send and
 * recv do not overlap. */
void ddp__schedule_all_to_all(struct ddp__schedule *s,
			      const struct ddp__path *p,
			      const struct ddp__call *call, const void *send,
			      const size_t *from, void *recv, const size_t *to);
void ddp__schedule_barrier(struct ddp__schedule *s, const struct ddp__path *p,
			   const struct ddp__call *call);

/* 1: the schedule has ended; 0: other hosts have not arrived yet; < 0:
 * ERR_REMOTE, ERR_TIMEOUT, ERR_ARGUMENT (a host is in another call),
 * ERR_PROTOCOL, -ENOMEM, or the error with which a host aborted. After an error
 * the caller releases the schedule and aborts the path. */
int ddp__schedule_advance(struct ddp__schedule *s, struct err *e);
/* Advances the schedule to its end, waiting, and releases it. 0 or an error. */
int ddp__schedule_run(struct ddp__schedule *s, struct err *e);
/* Frees the schedule's memory. A schedule that is zeroed or already released is
 * allowed. */
void ddp__schedule_release(struct ddp__schedule *s);

#endif

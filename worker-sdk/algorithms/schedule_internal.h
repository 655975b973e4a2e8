/* schedule_internal.h: the steps of each algorithm, and their shared
 * helpers. */
#ifndef SDK_SCHEDULE_INTERNAL_H
#define SDK_SCHEDULE_INTERNAL_H

#include "worker-sdk/algorithms/transport.h"
#include "worker-sdk/math/reduce.h"

/* The most hosts whose all_reduce is direct; with more, doubling has fewer
 * messages. */
enum { DDP__DIRECT_HOSTS = 4 };

/* Values of a schedule's step. */
int ddp__ring_all_reduce(struct ddp__schedule *s, struct err *e);
int ddp__ring_reduce_to_root(struct ddp__schedule *s, struct err *e);
int ddp__ring_reduce_scatter(struct ddp__schedule *s, struct err *e);
int ddp__ring_all_gather(struct ddp__schedule *s, struct err *e);
int ddp__ring_broadcast(struct ddp__schedule *s, struct err *e);
int ddp__doubling_all_reduce(struct ddp__schedule *s, struct err *e);
int ddp__doubling_barrier(struct ddp__schedule *s, struct err *e);
int ddp__tree_reduce(struct ddp__schedule *s, struct err *e);
int ddp__tree_broadcast(struct ddp__schedule *s, struct err *e);
int ddp__direct_all_reduce(struct ddp__schedule *s, struct err *e);
int ddp__direct_reduce_scatter(struct ddp__schedule *s, struct err *e);
int ddp__direct_all_gather(struct ddp__schedule *s, struct err *e);
int ddp__direct_gather(struct ddp__schedule *s, struct err *e);
int ddp__direct_scatter(struct ddp__schedule *s, struct err *e);
int ddp__direct_all_to_all(struct ddp__schedule *s, struct err *e);

/* ---- the transport's functions */

static inline int step_reserve(struct ddp__schedule *s, int messages, int pairs,
			       struct err *e)
{
	return s->transport->step.reserve(s, messages, pairs, e);
}

static inline void *step_send(struct ddp__schedule *s, int host,
			      const void *data, size_t size, const void *after)
{
	return s->transport->step.send(s, host, data, size, after);
}

static inline void *step_recv(struct ddp__schedule *s, int host, void *data,
			      size_t size)
{
	return s->transport->step.recv(s, host, data, size);
}

static inline void *step_fold(struct ddp__schedule *s, int host, void *data,
			      size_t size, int ranks, int last)
{
	return s->transport->step.fold(s, host, data, size, ranks, last);
}

static inline int step_scratch(struct ddp__schedule *s, size_t size,
			       struct err *e)
{
	return s->transport->step.scratch(s, size, e);
}

/* ---- hosts and blocks */

/* Number of ranks on n hosts from `host` on, around the ring. */
static inline int ranks_from(const struct ddp__schedule *s, int host, int n)
{
	int end = host + n;

	return end <= s->n ? s->before[end] - s->before[host]
			   : s->before[s->n] - s->before[host] +
				     s->before[end - s->n];
}

/* Host i of the ring, for i from -n on. */
static inline int host_at(const struct ddp__schedule *s, int i)
{
	return (i + 2 * s->n) % s->n;
}

/* Host h's block; begin counts units of `unit` bytes. */
static inline char *block_at(const struct ddp__schedule *s, int h, size_t unit)
{
	return s->buf + s->begin[h] * unit;
}

static inline size_t block_size(const struct ddp__schedule *s, int h,
				size_t unit)
{
	return (s->begin[h + 1] - s->begin[h]) * unit;
}

/* dst = the n buffers of src, reduced in their order; buffer i is the sum of
 * ranks[i] ranks. If last, then divides it where the operation is DDP_AVG. */
static inline void step_combine(struct ddp__schedule *s, void *dst,
				const void *const *src, const int *ranks, int n,
				size_t count, int last)
{
	int divisor = last && s->call.op == DDP_AVG ? s->divisor : 1;
	enum ddp_type type = s->call.type;

	if (s->scaled)
		ddp__add_scaled(dst, src, ranks, n, count, type, divisor);
	else
		ddp__reduce(dst, src, n, count, type, s->call.op, divisor);
}

static inline void step_combine_two(struct ddp__schedule *s, const void *a,
				    int ranks_a, const void *b, int ranks_b,
				    int last)
{
	step_combine(s, s->buf, (const void *[]){a, b},
		     (int[]){ranks_a, ranks_b}, 2, s->count, last);
}

/* Sends all of buf to host out and receives as many bytes into scratch from
 * host in; -1 for out or in: does not send or receive. */
static inline void step_exchange(struct ddp__schedule *s, int out, int in)
{
	size_t size = s->count * s->elem;

	if (out >= 0)
		step_send(s, out, s->buf, size, NULL);
	if (in >= 0)
		step_recv(s, in, s->scratch, size);
}

#endif

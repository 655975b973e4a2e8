/* shm_kinds.h: every kind of collective in shared memory, with each rank's
 * input and expected result, for test_shm*.c. */
#ifndef TESTS_SHM_KINDS_H
#define TESTS_SHM_KINDS_H

#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum kind {
	ALL_REDUCE,
	REDUCE,
	REDUCE_SCATTER,
	BROADCAST,
	ALL_GATHER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	BARRIER,
	KINDS
};

/* One call as one rank makes it; count elements of i32 to or from each rank. */
struct kind_case {
	struct ddp__shm *s;
	enum kind kind;
	size_t count;
	int to, shift, in_place; /* buffers are unaligned by `shift` bytes */
	struct ddp__call call;
	char *raw_a, *raw_b;   /* memory that holds send and recv, */
	char *send, *recv;     /* which are these, */
	int32_t *a, *b;	       /* and their earlier contents, aligned */
};

enum { AROUND = 1 };

static const enum ddp__kind called[KINDS] = {
	[ALL_REDUCE] = DDP__ALL_REDUCE,
	[REDUCE] = DDP__REDUCE,
	[REDUCE_SCATTER] = DDP__REDUCE_SCATTER,
	[BROADCAST] = DDP__BROADCAST,
	[ALL_GATHER] = DDP__ALL_GATHER,
	[GATHER] = DDP__GATHER,
	[SCATTER] = DDP__SCATTER,
	[ALL_TO_ALL] = DDP__ALL_TO_ALL,
	[BARRIER] = DDP__BARRIER,
};

static inline int32_t value_of(int rank, int kind, size_t i)
{
	return (int32_t)(i * 2654435761u + (unsigned)(rank * 7919 + kind));
}

/* The value that recv[i] must have on rank me; *same: recv keeps its
 * contents. */
static inline int32_t expected(const struct kind_case *t, size_t i, int *same)
{
	int n = t->s->n, me = t->s->me, kind = (int)t->kind;
	size_t count = t->count ? t->count : 1, own = (size_t)me * t->count;
	int block = (int)(i / count);
	uint32_t sum = 0;

	*same = (kind == REDUCE || kind == GATHER) && me != t->to;
	switch (t->kind) {
	case ALL_REDUCE:
	case REDUCE:
	case REDUCE_SCATTER:
		if (kind == REDUCE_SCATTER)
			i += own;
		for (int r = 0; r < n; r++)
			sum += (uint32_t)value_of(r, kind, i);
		return (int32_t)sum;
	case BROADCAST:
		return value_of(t->to, kind, i);
	case ALL_GATHER:
	case GATHER:
		return value_of(block, kind, i % count);
	case SCATTER:
		return value_of(t->to, kind, own + i);
	default: /* all_to_all */
		return value_of(block, kind, own + i % count);
	}
}

static inline size_t send_count(const struct kind_case *t)
{
	int blocks = t->kind == REDUCE_SCATTER || t->kind == SCATTER ||
		     t->kind == ALL_TO_ALL;

	return t->count * (size_t)(blocks ? t->s->n : 1);
}

static inline size_t recv_count(const struct kind_case *t)
{
	int blocks = t->kind == ALL_GATHER || t->kind == GATHER ||
		     t->kind == ALL_TO_ALL;

	return t->count * (size_t)(blocks ? t->s->n : 1);
}

static inline void prepare_op(struct kind_case *t, struct ddp__shm_op *op)
{
	const struct ddp__call *call = &t->call;
	struct ddp__shm *s = t->s;
	char *send = t->send, *recv = t->recv;
	size_t size = t->count * 4;

	switch (t->kind) {
	case ALL_REDUCE:
		ddp__shm_reduce(op, s, call, send, recv, t->count, DDP__ALL, 1);
		break;
	case REDUCE:
		ddp__shm_reduce(op, s, call, send, recv, t->count, t->to, 1);
		break;
	case REDUCE_SCATTER:
		ddp__shm_reduce_scatter(op, s, call, send, recv, t->count, 1);
		break;
	case BROADCAST:
		ddp__shm_broadcast(op, s, call, t->to, send, size, recv, 0,
				   size);
		break;
	case ALL_GATHER:
		ddp__shm_gather(op, s, call, send, size, recv, NULL, DDP__ALL);
		break;
	case GATHER:
		ddp__shm_gather(op, s, call, send, size, recv, NULL, t->to);
		break;
	case SCATTER:
		ddp__shm_scatter(op, s, call, t->to, send, size, recv, NULL);
		break;
	case ALL_TO_ALL:
		ddp__shm_all_to_all(op, s, call, send, size, recv, NULL);
		break;
	default:
		ddp__shm_barrier(op, s, call);
	}
}

/* The place in recv (or send) at which the in-place form has the other
 * buffer. */
static inline void place_buffers(struct kind_case *t)
{
	size_t own = (size_t)t->s->me * t->count * 4;

	t->send = t->raw_a + AROUND + t->shift;
	t->recv = t->raw_b + AROUND + t->shift;
	if (!t->in_place)
		return;
	if (t->kind == REDUCE_SCATTER ||
	    (t->kind == SCATTER && t->s->me == t->to))
		t->recv = t->send + own;
	else if (t->kind == ALL_GATHER ||
		 (t->kind == GATHER && t->s->me == t->to))
		t->send = t->recv + own;
	else if (t->kind != SCATTER && t->kind != GATHER)
		t->recv = t->send;
}

/* Allocates buffers for calls of up to `count` elements in a world of s->n
 * ranks. */
static inline void kind_init(struct kind_case *t, struct ddp__shm *s,
			     size_t count)
{
	size_t most = count * 4 * (size_t)s->n + 16;

	*t = (struct kind_case){.s = s,
				.raw_a = calloc(1, most),
				.raw_b = calloc(1, most),
				.a = calloc(1, most),
				.b = calloc(1, most)};
}

static inline void kind_release(struct kind_case *t)
{
	free(t->raw_a);
	free(t->raw_b);
	free(t->a);
	free(t->b);
}

/* Fills the buffers and prepares op as the number-th call. */
static inline void kind_start(struct kind_case *t, struct ddp__shm_op *op,
			      uint64_t number)
{
	size_t sends = send_count(t);

	t->call = (struct ddp__call){called[t->kind], DDP_I32, DDP_SUM, t->to,
				     t->count, number};
	place_buffers(t);
	for (size_t i = 0; i < sends; i++)
		t->a[i] = value_of(t->s->me, (int)t->kind, i);
	memcpy(t->send, t->a, sends * 4);
	memcpy(t->b, t->recv, recv_count(t) * 4);
	prepare_op(t, op);
}

/* Whether recv has the right contents after the call. */
static inline int kind_right(struct kind_case *t)
{
	int32_t *was = t->b, *is = t->a;
	size_t n = t->kind == BARRIER ? 0 : recv_count(t);
	int same;

	memcpy(is, t->recv, n * 4);
	for (size_t i = 0; i < n; i++) {
		int32_t want = expected(t, i, &same);

		if (is[i] != (same ? was[i] : want))
			return 0;
	}
	return 1;
}

#endif

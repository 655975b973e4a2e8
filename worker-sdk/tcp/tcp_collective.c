/* tcp_collective.c: the steps of each collective: rings for what is large, a
 * few exchanges for what is small. */
#include "worker-sdk/tcp/tcp_collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/math/reduce.h"

enum {
	/* Up to here a message to each other host beats a ring's turns. */
	SMALL_MAX = 32 << 10,
	SMALL_TOTAL_MAX = 1 << 20,
	/* Two hosts: up to here one exchange of all beats two of halves. */
	EXCHANGE_MAX = 1 << 20,
	DIRECT_HOSTS = 4, /* with more, doubling has fewer messages */
	AT_ONCE = 8	  /* peers of an all_to_all at a time */
};

static struct ddp__tcp_op prepared(struct ddp__tcp *t,
				   const struct ddp__call *call, void *buf,
				   int (*step)(struct ddp__tcp_op *op,
					       struct err *e))
{
	ddp__tcp_begin(t, call);
	return (struct ddp__tcp_op){.t = t,
				    .call = *call,
				    .step = step,
				    .buf = buf,
				    .elem = ddp_type_size(call->type),
				    .divisor = 1,
				    .scaled = ddp__is_scaled(call->type,
							     call->op)};
}

/* i in 0..n-1, for i from -n on */
static int ring(const struct ddp__tcp_op *op, int i)
{
	return (i + 2 * op->t->n) % op->t->n;
}

static int is_small(const struct ddp__tcp_op *op, size_t size)
{
	return size <= SMALL_MAX && size * (size_t)op->t->n <= SMALL_TOTAL_MAX;
}

/* What belongs to host h, where begin counts units of so many bytes. */
static char *at(const struct ddp__tcp_op *op, int h, size_t unit)
{
	return op->buf + op->begin[h] * unit;
}

static size_t size_of(const struct ddp__tcp_op *op, int h, size_t unit)
{
	return (op->begin[h + 1] - op->begin[h]) * unit;
}

/* dst = the n buffers of src, each of so many ranks, reduced in their order;
 * the last time it is divided where the op is DDP_AVG. */
static void combine(struct ddp__tcp_op *op, void *dst, const void *const *src,
		    const int *ranks, int n, size_t count, int last)
{
	int divisor = last && op->call.op == DDP_AVG ? op->divisor : 1;
	enum ddp_type type = op->call.type;

	if (op->scaled)
		ddp__add_scaled(dst, src, ranks, n, count, type, divisor);
	else
		ddp__reduce(dst, src, n, count, type, op->call.op, divisor);
}

static void combine_two(struct ddp__tcp_op *op, const void *a, int ranks_a,
			const void *b, int ranks_b, int last)
{
	combine(op, op->buf, (const void *[]){a, b}, (int[]){ranks_a, ranks_b},
		2, op->count, last);
}

/* ---- rings ---- */

/* Block b goes round from host b+1 on, gathering each host's part, and ends,
 * reduced, at host b. Returns the message that ends at mine. A byte goes on as
 * soon as it has been reduced. */
static struct ddp__message *ring_reduce(struct ddp__tcp_op *op)
{
	int me = op->t->me, n = op->t->n;
	struct ddp__message *in = NULL;

	for (int turn = 0; turn < n - 1; turn++) {
		int out = ring(op, me - turn - 1), own = ring(op, out - 1);

		/* what comes is of the hosts from out to me - 1 */
		ddp__tcp_send_to(op, ring(op, me + 1), at(op, out, op->elem),
				 size_of(op, out, op->elem), in);
		in = ddp__tcp_fold_from(op, ring(op, me - 1),
					at(op, own, op->elem),
					size_of(op, own, op->elem),
					ddp__tcp_ranks(op->t, out, turn + 1),
					turn == n - 2);
	}
	return in;
}

/* mine: what my block waits for, or NULL. */
static void ring_gather(struct ddp__tcp_op *op, size_t unit,
			struct ddp__message *mine)
{
	int me = op->t->me;
	struct ddp__message *in = mine;

	for (int turn = 0; turn < op->t->n - 1; turn++) {
		int out = ring(op, me - turn), other = ring(op, out - 1);

		ddp__tcp_send_to(op, ring(op, me + 1), at(op, out, unit),
				 size_of(op, out, unit), in);
		in = ddp__tcp_receive_from(op, ring(op, me - 1),
					   at(op, other, unit),
					   size_of(op, other, unit));
	}
}

/* Blocks of whole cache lines; the last may be short or empty. */
static int cut(struct ddp__tcp_op *op, struct err *e)
{
	size_t n = (size_t)op->t->n, lines = 64 / op->elem, each;
	size_t *begin = malloc((n + 1) * sizeof(*begin));

	if (!begin)
		return err_set(e, -ENOMEM, "no memory for %zu hosts", n);
	each = ((op->count + n - 1) / n + lines - 1) / lines * lines;
	for (size_t h = 0; h <= n; h++)
		begin[h] = h * each < op->count ? h * each : op->count;
	op->begin = op->ranges = begin;
	return 0;
}

static int ring_all_reduce(struct ddp__tcp_op *op, struct err *e)
{
	int rc = op->turn ? 1 : cut(op, e);

	if (!rc)
		rc = ddp__tcp_reserve(op, 4 * op->t->n, 2, e);
	if (!rc)
		ring_gather(op, op->elem, ring_reduce(op));
	return rc;
}

/* ---- all_reduce ---- */

/* All hosts' buffers side by side, then reduced in their order. */
static int direct_all_reduce(struct ddp__tcp_op *op, struct err *e)
{
	size_t size = op->count * op->elem;
	const void *src[DIRECT_HOSTS];
	int me = op->t->me, n = op->t->n, rc;

	if (op->turn == 0) {
		rc = ddp__tcp_scratch(op, size * (size_t)n, e);
		if (!rc)
			rc = ddp__tcp_reserve(op, 2 * n, 2 * n, e);
		for (int h = 0; h < n && !rc; h++) {
			if (h == me)
				continue;
			ddp__tcp_send_to(op, h, op->buf, size, NULL);
			ddp__tcp_receive_from(op, h, op->scratch +
					      (size_t)h * size, size);
		}
		return rc;
	}
	for (int h = 0; h < n; h++)
		src[h] = h == me ? op->buf : op->scratch + (size_t)h * size;
	/* The result may be where one of the first two sources is. */
	combine(op, me ? op->scratch : op->buf, src, op->t->ranks, n, op->count,
		1);
	if (me && size)
		memcpy(op->buf, op->scratch, size);
	return 1;
}

/* Recursive doubling. Where n is no power of two, the first hosts begin and end
 * in pairs of which one takes part. id: this host's among those who do. */
struct doubling {
	int pairs, id, size;
};

static struct doubling doubling(const struct ddp__tcp_op *op)
{
	struct doubling d = {.size = 1};
	int me = op->t->me;

	while (d.size * 2 <= op->t->n)
		d.size *= 2;
	d.pairs = op->t->n - d.size;
	d.id = me >= 2 * d.pairs ? me - d.pairs : me % 2 ? -1 : me / 2;
	return d;
}

static int host_of(const struct doubling *d, int id)
{
	return id < d->pairs ? 2 * id : id + d->pairs;
}

/* Ranks of the hosts that stand for ids first to first + n - 1. */
static int ranks_of(const struct ddp__tcp_op *op, const struct doubling *d,
		    int first, int n)
{
	int host = host_of(d, first);

	return ddp__tcp_ranks(op->t, host, host_of(d, first + n) - host);
}

static void exchange(struct ddp__tcp_op *op, int out, int in)
{
	size_t size = op->count * op->elem;

	if (out >= 0)
		ddp__tcp_send_to(op, out, op->buf, size, NULL);
	if (in >= 0)
		ddp__tcp_receive_from(op, in, op->scratch, size);
}

static int ended(struct ddp__tcp_op *op, struct err *e)
{
	return 1;
}

/* Phases: 0 the pairs' other halves give; 1, 2, 4.. exchanges; they get. */
static int doubling_all_reduce(struct ddp__tcp_op *op, struct err *e)
{
	struct doubling d = doubling(op);
	int me = op->t->me, rc, other;

	if (op->turn == 0) {
		rc = ddp__tcp_scratch(op, op->count * op->elem, e);
		if (!rc)
			rc = ddp__tcp_reserve(op, 2, 2, e);
		if (!rc && me < 2 * d.pairs)
			exchange(op, d.id < 0 ? me - 1 : -1,
				 d.id < 0 ? -1 : me + 1);
		return rc;
	}
	rc = ddp__tcp_reserve(op, 2, 2, e);
	if (rc)
		return rc;
	if (d.id < 0) {
		if (op->turn == 1)
			ddp__tcp_receive_from(op, me - 1, op->buf,
					      op->count * op->elem);
		return op->turn > 1;
	}
	if (op->phase == 0 && me < 2 * d.pairs)
		combine_two(op, op->buf, op->t->ranks[me], op->scratch,
			    op->t->ranks[me + 1], 0);
	if (op->phase) {
		/* the same order at both ends: the same bits */
		int lower = !(d.id & op->phase), n = op->phase;
		int first = d.id & ~(2 * n - 1);

		combine_two(op, lower ? op->buf : op->scratch,
			    ranks_of(op, &d, first, n),
			    lower ? op->scratch : op->buf,
			    ranks_of(op, &d, first + n, n), 2 * n == d.size);
	}
	op->phase = op->phase ? 2 * op->phase : 1;
	if (op->phase < d.size) {
		other = host_of(&d, d.id ^ op->phase);
		exchange(op, other, other);
		return 0;
	}
	op->step = ended;
	exchange(op, me < 2 * d.pairs ? me + 1 : -1, -1);
	return 0;
}

void ddp__tcp_all_reduce(struct ddp__tcp_op *op, struct ddp__tcp *t,
			 const struct ddp__call *call, void *buf, size_t count,
			 int divisor)
{
	size_t size = count * ddp_type_size(call->type);

	*op = prepared(t, call, buf, ring_all_reduce);
	op->count = count;
	op->divisor = divisor;
	if (t->n == 2 ? size <= EXCHANGE_MAX
		      : t->n <= DIRECT_HOSTS && is_small(op, size))
		op->step = direct_all_reduce;
	else if (is_small(op, size))
		op->step = doubling_all_reduce;
}

/* ---- reduce ---- */

/* A binomial tree; who has given has done its part. */
static int tree_reduce(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, n = op->t->n, mask = 1 << op->turn, rc;
	int id = ring(op, me - op->root);

	if (op->turn == 0) {
		rc = ddp__tcp_scratch(op, op->count * op->elem, e);
		if (rc)
			return rc;
	} else if (id & mask / 2) {
		return 1;
	} else if (id + mask / 2 < n) {
		int here = mask / 2, there = n - id - here;

		combine_two(op, op->buf, ddp__tcp_ranks(op->t, me, here),
			    op->scratch,
			    ddp__tcp_ranks(op->t, ring(op, me + here),
					   there < here ? there : here),
			    mask >= n);
	}
	if (mask >= n)
		return 1;
	rc = ddp__tcp_reserve(op, 1, 1, e);
	if (rc)
		return rc;
	if (id & mask)
		exchange(op, ring(op, op->t->me - mask), -1);
	else if (id + mask < n)
		exchange(op, -1, ring(op, op->t->me + mask));
	return 0;
}

static int ring_reduce_to_root(struct ddp__tcp_op *op, struct err *e)
{
	struct ddp__message *mine;
	int me = op->t->me, rc = op->turn ? 1 : cut(op, e);

	if (!rc)
		rc = ddp__tcp_reserve(op, 3 * op->t->n, op->t->n + 2, e);
	if (rc)
		return rc;
	mine = ring_reduce(op);
	if (me != op->root)
		ddp__tcp_send_to(op, op->root, at(op, me, op->elem),
				 size_of(op, me, op->elem), mine);
	for (int h = 0; h < op->t->n && me == op->root; h++)
		if (h != me)
			ddp__tcp_receive_from(op, h, at(op, h, op->elem),
					      size_of(op, h, op->elem));
	return 0;
}

void ddp__tcp_reduce(struct ddp__tcp_op *op, struct ddp__tcp *t,
		     const struct ddp__call *call, void *buf, size_t count,
		     int root, int divisor)
{
	*op = prepared(t, call, buf, ring_reduce_to_root);
	op->count = count;
	op->root = root;
	op->divisor = divisor;
	if (is_small(op, count * op->elem))
		op->step = tree_reduce;
}

/* ---- reduce_scatter ---- */

static int ring_reduce_scatter(struct ddp__tcp_op *op, struct err *e)
{
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, 2 * op->t->n, 2, e);

	if (!rc)
		ring_reduce(op);
	return rc;
}

/* Each block straight to whom it is for, who reduces in the hosts' order. */
static int direct_reduce_scatter(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, n = op->t->n, rc;
	size_t size = size_of(op, me, op->elem), count = size / op->elem;
	size_t pointers = (size_t)n * sizeof(void *);
	const void **src;
	char *in;

	if (op->turn == 0) {
		rc = ddp__tcp_scratch(op, pointers + size * (size_t)n, e);
		if (!rc)
			rc = ddp__tcp_reserve(op, 2 * n, 2 * n, e);
		for (int h = 0; h < n && !rc; h++) {
			if (h == me)
				continue;
			in = op->scratch + pointers + (size_t)h * size;
			ddp__tcp_send_to(op, h, at(op, h, op->elem),
					 size_of(op, h, op->elem), NULL);
			ddp__tcp_receive_from(op, h, in, size);
		}
		return rc;
	}
	src = (const void **)(void *)op->scratch;
	for (int h = 0; h < n; h++)
		src[h] = h == me ? at(op, me, op->elem)
				 : op->scratch + pointers + (size_t)h * size;
	combine(op, (void *)src[0], src, op->t->ranks, n, count, 1);
	if (me && size)
		memcpy(at(op, me, op->elem), src[0], size);
	return 1;
}

void ddp__tcp_reduce_scatter(struct ddp__tcp_op *op, struct ddp__tcp *t,
			     const struct ddp__call *call, void *buf,
			     const size_t *begin, int divisor)
{
	*op = prepared(t, call, buf, ring_reduce_scatter);
	op->begin = begin;
	op->divisor = divisor;
	if (is_small(op, begin[t->n] * op->elem))
		op->step = direct_reduce_scatter;
}

/* ---- what moves without being reduced ---- */

static int ring_all_gather(struct ddp__tcp_op *op, struct err *e)
{
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, 2 * op->t->n, 2, e);

	if (!rc)
		ring_gather(op, 1, NULL);
	return rc;
}

static int direct_all_gather(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, n = op->t->n;
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, 2 * n, 2 * n, e);

	for (int h = 0; h < n && !rc; h++) {
		if (h == me)
			continue;
		ddp__tcp_send_to(op, h, at(op, me, 1), size_of(op, me, 1),
				 NULL);
		ddp__tcp_receive_from(op, h, at(op, h, 1), size_of(op, h, 1));
	}
	return rc;
}

void ddp__tcp_all_gather(struct ddp__tcp_op *op, struct ddp__tcp *t,
			 const struct ddp__call *call, void *buf,
			 const size_t *begin)
{
	*op = prepared(t, call, buf, ring_all_gather);
	op->begin = begin;
	if (t->n == 2 || is_small(op, begin[t->n]))
		op->step = direct_all_gather;
}

static int direct_gather(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, n = op->t->n;
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, n, n, e);

	if (!rc && me != op->root)
		ddp__tcp_send_to(op, op->root, op->other, size_of(op, me, 1),
				 NULL);
	for (int h = 0; h < n && !rc && me == op->root; h++)
		if (h != me)
			ddp__tcp_receive_from(op, h, at(op, h, 1),
					      size_of(op, h, 1));
	return rc;
}

void ddp__tcp_gather(struct ddp__tcp_op *op, struct ddp__tcp *t,
		     const struct ddp__call *call, const void *mine, void *all,
		     const size_t *begin, int root)
{
	*op = prepared(t, call, all, direct_gather);
	op->other = (char *)mine;
	op->begin = begin;
	op->root = root;
}

static int direct_scatter(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, n = op->t->n;
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, n, n, e);

	if (!rc && me != op->root)
		ddp__tcp_receive_from(op, op->root, op->other,
				      size_of(op, me, 1));
	for (int h = 0; h < n && !rc && me == op->root; h++)
		if (h != me)
			ddp__tcp_send_to(op, h, at(op, h, 1),
					 size_of(op, h, 1), NULL);
	return rc;
}

void ddp__tcp_scatter(struct ddp__tcp_op *op, struct ddp__tcp *t,
		      const struct ddp__call *call, const void *all, void *mine,
		      const size_t *begin, int root)
{
	*op = prepared(t, call, (void *)all, direct_scatter);
	op->other = mine;
	op->begin = begin;
	op->root = root;
}

/* Down a chain that begins at the root: what has come goes on. */
static int chain_broadcast(struct ddp__tcp_op *op, struct err *e)
{
	int next = ring(op, op->t->me + 1);
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, 2, 2, e);
	struct ddp__message *in = NULL;

	if (rc)
		return rc;
	if (op->t->me != op->root)
		in = ddp__tcp_receive_from(op, ring(op, op->t->me - 1),
					   op->buf, op->count);
	if (next != op->root)
		ddp__tcp_send_to(op, next, op->buf, op->count, in);
	return 0;
}

/* A binomial tree: host id gets from id without its lowest bit. */
static int tree_broadcast(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, n = op->t->n, id = ring(op, me - op->root);
	int rc = op->turn ? 1 : ddp__tcp_reserve(op, 33, 33, e), low = 1;
	struct ddp__message *in = NULL;

	if (rc)
		return rc;
	while (id ? !(id & low) : low < n)
		low *= 2;
	if (id)
		in = ddp__tcp_receive_from(op, ring(op, me - low), op->buf,
					   op->count);
	for (low /= 2; low; low /= 2)
		if (id + low < n)
			ddp__tcp_send_to(op, ring(op, me + low), op->buf,
					 op->count, in);
	return 0;
}

void ddp__tcp_broadcast(struct ddp__tcp_op *op, struct ddp__tcp *t,
			const struct ddp__call *call, void *buf, size_t size,
			int root)
{
	*op = prepared(t, call, buf, chain_broadcast);
	op->count = size;
	op->root = root;
	if (is_small(op, size))
		op->step = tree_broadcast;
}

/* In turn t each host serves the next AT_ONCE after it, so that nobody is
 * flooded. */
static int pairs_all_to_all(struct ddp__tcp_op *op, struct err *e)
{
	int me = op->t->me, first = op->turn * AT_ONCE + 1, rc;

	if (first >= op->t->n)
		return 1;
	rc = ddp__tcp_reserve(op, 2 * AT_ONCE, 2 * AT_ONCE, e);
	for (int k = first; k < first + AT_ONCE && k < op->t->n && !rc; k++) {
		int out = ring(op, me + k), in = ring(op, me - k);

		ddp__tcp_send_to(op, out, at(op, out, 1), size_of(op, out, 1),
				 NULL);
		ddp__tcp_receive_from(op, in, op->other + op->other_begin[in],
				      op->other_begin[in + 1] -
					      op->other_begin[in]);
	}
	return rc;
}

void ddp__tcp_all_to_all(struct ddp__tcp_op *op, struct ddp__tcp *t,
			 const struct ddp__call *call, const void *send,
			 const size_t *from, void *recv, const size_t *to)
{
	*op = prepared(t, call, (void *)send, pairs_all_to_all);
	op->begin = from;
	op->other = recv;
	op->other_begin = to;
}

/* Dissemination (Hensgen, Finkel, Manber 1988): after log2(n) turns everyone
 * has heard, directly or not, from everyone. */
static int disseminate(struct ddp__tcp_op *op, struct err *e)
{
	int far = 1 << op->turn, me = op->t->me, rc;

	if (far >= op->t->n)
		return 1;
	rc = ddp__tcp_reserve(op, 2, 2, e);
	if (rc)
		return rc;
	ddp__tcp_send_to(op, ring(op, me + far), NULL, 0, NULL);
	ddp__tcp_receive_from(op, ring(op, me - far), NULL, 0);
	return 0;
}

void ddp__tcp_barrier(struct ddp__tcp_op *op, struct ddp__tcp *t,
		      const struct ddp__call *call)
{
	*op = prepared(t, call, NULL, disseminate);
}

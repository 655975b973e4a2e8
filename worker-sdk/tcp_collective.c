/* tcp_collective.c: rings for what is large, all to all for what is small. */
#include "worker-sdk/tcp_collective.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/reduce.h"

enum {
	/* Up to here one message to each other host beats a ring's 2(n-1)
	 * turns, as long as there are few hosts. */
	SMALL_MAX = 32 << 10,
	SMALL_TOTAL_MAX = 1 << 20,
	/* What a host passes on at a time in a broadcast. */
	CHUNK = 256 << 10
};

static int no_memory(size_t size, struct err *e)
{
	return err_set(e, -ENOMEM, "no memory for %zu bytes to reduce", size);
}

static int is_small(const struct ddp__tcp *t, size_t size)
{
	return size <= SMALL_MAX && size * (size_t)t->n <= SMALL_TOTAL_MAX;
}

/* i in 0..n-1, for i from -n on */
static int ring(const struct ddp__tcp *t, int i)
{
	return (i + 2 * t->n) % t->n;
}

/* Sends size bytes to the next host while in_size come from the one before. */
static void ring_turn(struct ddp__tcp *t, const void *out, size_t out_size,
		      void *in, size_t in_size)
{
	ddp__transfer_send(ddp__transfer_init(&t->transfers[0],
					      ring(t, t->me + 1)),
			   out, out_size);
	ddp__transfer_receive(ddp__transfer_init(&t->transfers[1],
						 ring(t, t->me - 1)),
			      in, in_size);
}

/* All hosts' buffers side by side, then reduced in their order. */
static int reduce_small(struct ddp__tcp *t, void *buf, size_t count,
			int divisor, struct err *e)
{
	size_t size = count * ddp_type_size(t->call->type);
	size_t pointers = (size_t)t->n * sizeof(void *);
	char *all = ddp__tcp_scratch(t, pointers + size * (size_t)(t->n + 1));
	const void **src = (const void **)(void *)all;
	int n = 0, rc;

	if (!all)
		return no_memory(size, e);
	all += pointers;
	for (int h = 0; h < t->n; h++) {
		src[h] = h == t->me ? (char *)buf : all + (size_t)h * size;
		if (h == t->me)
			continue;
		ddp__transfer_init(&t->transfers[n], h);
		ddp__transfer_send(&t->transfers[n], buf, size);
		ddp__transfer_receive(&t->transfers[n++],
				      all + (size_t)h * size, size);
	}
	rc = ddp__tcp_run(t, t->transfers, n, e);
	if (rc)
		return rc;
	ddp__reduce(all + (size_t)t->n * size, src, t->n, count, t->call->type,
		    t->call->op, divisor);
	if (size)
		memcpy(buf, all + (size_t)t->n * size, size);
	return 0;
}

/* Adds to own elements what comes in, as it comes. */
struct fold {
	const struct ddp__call *call;
	char *own;
	size_t folded; /* elements */
};

static void on_partial(struct ddp__transfer *x, size_t got)
{
	struct fold *f = x->arg;
	size_t elem = ddp_type_size(f->call->type);
	size_t n = got / elem - f->folded, at = f->folded * elem;

	/* In larger pieces, unless it is the last. */
	if (n * elem < 16384 && got < x->in_len)
		return;
	ddp__reduce(f->own + at, (const void *[]){x->in + at, f->own + at}, 2,
		    n, f->call->type, f->call->op, 1);
	f->folded += n;
}

/* Block b goes round from host b+1 on, gathering each host's part, and ends,
 * reduced, at host b. */
static int ring_reduce(struct ddp__tcp *t, char *buf, const size_t *begin,
		       int divisor, struct err *e)
{
	size_t elem = ddp_type_size(t->call->type), most = 0;
	char *in;

	for (int h = 0; h < t->n; h++)
		if (begin[h + 1] - begin[h] > most)
			most = begin[h + 1] - begin[h];
	in = ddp__tcp_scratch(t, most * elem);
	if (!in && most)
		return no_memory(most * elem, e);
	for (int turn = 0; turn < t->n - 1; turn++) {
		int out = ring(t, t->me - turn - 1);
		int own = ring(t, t->me - turn - 2), rc;
		struct fold fold = {t->call, buf + begin[own] * elem, 0};

		ring_turn(t, buf + begin[out] * elem,
			  (begin[out + 1] - begin[out]) * elem, in,
			  (begin[own + 1] - begin[own]) * elem);
		t->transfers[1].on_data = on_partial;
		t->transfers[1].arg = &fold;
		rc = ddp__tcp_run(t, t->transfers, 2, e);
		if (rc)
			return rc;
	}
	if (t->call->op == DDP_AVG && divisor > 1)
		ddp__divide(buf + begin[t->me] * elem,
			    begin[t->me + 1] - begin[t->me], t->call->type,
			    divisor);
	return 0;
}

static int ring_gather(struct ddp__tcp *t, char *buf, const size_t *begin,
		       size_t elem, struct err *e)
{
	for (int turn = 0; turn < t->n - 1; turn++) {
		int out = ring(t, t->me - turn);
		int in = ring(t, t->me - turn - 1), rc;

		ring_turn(t, buf + begin[out] * elem,
			  (begin[out + 1] - begin[out]) * elem,
			  buf + begin[in] * elem,
			  (begin[in + 1] - begin[in]) * elem);
		rc = ddp__tcp_run(t, t->transfers, 2, e);
		if (rc)
			return rc;
	}
	return 0;
}

int ddp__tcp_all_reduce(struct ddp__tcp *t, void *buf, size_t count,
			int divisor, struct err *e)
{
	size_t elem = ddp_type_size(t->call->type), n = (size_t)t->n, each;
	size_t *begin;
	int rc;

	if (is_small(t, count * elem))
		return reduce_small(t, buf, count, divisor, e);
	begin = malloc((n + 1) * sizeof(*begin));
	if (!begin)
		return no_memory(n * sizeof(*begin), e);
	/* Whole cache lines; the last blocks may be short or empty. */
	each = ((count + n - 1) / n * elem + 63) / 64 * 64 / elem;
	for (size_t h = 0; h <= n; h++)
		begin[h] = h * each < count ? h * each : count;
	rc = ring_reduce(t, buf, begin, divisor, e);
	if (!rc)
		rc = ring_gather(t, buf, begin, elem, e);
	free(begin);
	return rc;
}

int ddp__tcp_reduce_scatter(struct ddp__tcp *t, void *buf, const size_t *begin,
			    int divisor, struct err *e)
{
	return ring_reduce(t, buf, begin, divisor, e);
}

int ddp__tcp_all_gather(struct ddp__tcp *t, void *buf, const size_t *begin,
			struct err *e)
{
	char *all = buf;
	int n = 0;

	if (!is_small(t, begin[t->n]))
		return ring_gather(t, buf, begin, 1, e);
	for (int h = 0; h < t->n; h++) {
		if (h == t->me)
			continue;
		ddp__transfer_init(&t->transfers[n], h);
		ddp__transfer_send(&t->transfers[n], all + begin[t->me],
				   begin[t->me + 1] - begin[t->me]);
		ddp__transfer_receive(&t->transfers[n++], all + begin[h],
				      begin[h + 1] - begin[h]);
	}
	return ddp__tcp_run(t, t->transfers, n, e);
}

static int broadcast_small(struct ddp__tcp *t, void *buf, size_t size, int root,
			   struct err *e)
{
	int n = 0;

	if (t->me != root) {
		ddp__transfer_receive(ddp__transfer_init(t->transfers, root),
				      buf, size);
		return ddp__tcp_run(t, t->transfers, 1, e);
	}
	for (int h = 0; h < t->n; h++)
		if (h != root)
			ddp__transfer_send(
				ddp__transfer_init(&t->transfers[n++], h), buf,
				size);
	return ddp__tcp_run(t, t->transfers, n, e);
}

/* Down a chain that begins at the root: while chunk k comes, k-1 goes on. */
int ddp__tcp_broadcast(struct ddp__tcp *t, void *buf, size_t size, int root,
		       struct err *e)
{
	size_t chunks = (size + CHUNK - 1) / CHUNK;
	int first = t->me == root, last = ring(t, t->me + 1) == root;

	if (is_small(t, size))
		return broadcast_small(t, buf, size, root, e);
	for (size_t k = 0; k <= chunks; k++) {
		size_t in = first ? chunks : k, out = first ? k : k - 1;
		struct ddp__transfer *x = t->transfers;
		int n = 0, rc;

		if (in < chunks)
			ddp__transfer_receive(
				ddp__transfer_init(&x[n++],
						   ring(t, t->me - 1)),
				(char *)buf + in * CHUNK,
				size - in * CHUNK < CHUNK ? size - in * CHUNK
							  : CHUNK);
		if (!last && out < chunks)
			ddp__transfer_send(
				ddp__transfer_init(&x[n++],
						   ring(t, t->me + 1)),
				(char *)buf + out * CHUNK,
				size - out * CHUNK < CHUNK ? size - out * CHUNK
							   : CHUNK);
		rc = n ? ddp__tcp_run(t, x, n, e) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* Dissemination (Hensgen, Finkel, Manber 1988): after log2(n) turns everyone
 * has heard, directly or not, from everyone. */
int ddp__tcp_barrier(struct ddp__tcp *t, struct err *e)
{
	for (int far = 1; far < t->n; far *= 2) {
		int rc;

		ddp__transfer_send(ddp__transfer_init(&t->transfers[0],
						      ring(t, t->me + far)),
				   NULL, 0);
		ddp__transfer_receive(ddp__transfer_init(&t->transfers[1],
							 ring(t, t->me - far)),
				      NULL, 0);
		rc = ddp__tcp_run(t, t->transfers, 2, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* shm_collective.c: staged through the slots, a chunk a step; while a rank
 * works on one half of its slot the others read the other half. */
#include "worker-sdk/shm_collective.h"

#include <string.h>

#include "worker-sdk/reduce.h"

enum {
	/* Up to here every rank reduces everything itself: one step instead of
	 * two is worth n times the additions. */
	FLAT_MAX = 16 << 10,
	/* A slice is reduced in pieces that stay in L1. */
	PIECE = 8 << 10
};

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Elements of a chunk so that all chunks are about alike and none exceeds
 * `most` bytes. */
static size_t chunk_elems(size_t count, size_t most, size_t elem)
{
	size_t line = 64 / elem, max = most / elem;
	size_t chunks = (count + max - 1) / max;
	size_t each = chunks ? (count + chunks - 1) / chunks : 1;

	return min_size(max, (each + line - 1) / line * line);
}

static int next_step(struct ddp__shm *s, int first, struct err *e)
{
	ddp__shm_post(s);
	return first ? ddp__shm_wait_first(s, e) : ddp__shm_wait(s, e);
}

/* One step: everyone writes all, everyone reduces all. */
static int reduce_flat(struct ddp__shm *s, const struct ddp__call *call,
		       const void *send, void *recv, size_t count, int to,
		       int divisor, struct err *e)
{
	size_t size = count * ddp_type_size(call->type);
	uint32_t step = s->step + 1;
	int tiny = size <= DDP__SHM_TINY, rc;

	memcpy(tiny ? (char *)ddp__shm_control(s, s->me)->tiny[step & 1]
		    : ddp__shm_in(s, s->me, step),
	       send, size);
	rc = next_step(s, 1, e);
	if (rc || (to != DDP__ALL && to != s->me))
		return rc;
	for (int i = 0; i < s->n; i++)
		s->sources[i] =
			tiny ? (char *)ddp__shm_control(s, i)->tiny[step & 1]
			     : ddp__shm_in(s, i, step);
	ddp__reduce(recv, s->sources, s->n, count, call->type, call->op,
		    divisor);
	return 0;
}

/* Reduces `count` elements that lie `at` elements into everyone's input of a
 * step, mine at `own` instead, into shared (may be NULL) and recv (may be
 * NULL). recv may be `own`: so the result is made elsewhere. */
static void reduce_slice(struct ddp__shm *s, const struct ddp__call *call,
			 uint32_t step, size_t at, const char *own,
			 char *shared, char *recv, size_t count, int divisor)
{
	size_t elem = ddp_type_size(call->type), piece = PIECE / elem;
	char bounce[PIECE];

	for (size_t done = 0; done < count; done += piece) {
		size_t len = min_size(piece, count - done);
		char *dst = shared ? shared + done * elem : bounce;

		for (int i = 0; i < s->n; i++)
			s->sources[i] = i == s->me
						? own + done * elem
						: ddp__shm_in(s, i, step) +
							  (at + done) * elem;
		ddp__reduce(dst, s->sources, s->n, len, call->type, call->op,
			    divisor);
		if (recv)
			memcpy(recv + done * elem, dst, len * elem);
	}
}

/* A sliced reduction under way: chunks of `each` elements, of which rank i
 * reduces slice i. */
struct sliced {
	struct ddp__shm *s;
	const struct ddp__call *call;
	const char *send;
	char *recv; /* NULL where nothing is wanted */
	size_t count, each, elem;
	int divisor;
};

struct slice_range {
	size_t at; /* of the slice, in the chunk */
	size_t len;
};

static size_t chunk_len(const struct sliced *r, size_t chunk)
{
	return min_size(r->each, r->count - chunk * r->each);
}

/* Slice i of a chunk; slices are whole cache lines, so the last may be short
 * or empty. */
static struct slice_range slice_of(const struct sliced *r, size_t chunk, int i)
{
	size_t n = chunk_len(r, chunk), line = 64 / r->elem;
	size_t parts = (size_t)r->s->n;
	size_t part = ((n + parts - 1) / parts + line - 1) / line * line;
	size_t at = min_size(n, part * (size_t)i);

	return (struct slice_range){at, min_size(part, n - at)};
}

/* All but my own slice, which only I need. */
static void put_chunk(const struct sliced *r, size_t chunk, uint32_t step)
{
	struct slice_range own = slice_of(r, chunk, r->s->me);
	const char *from = r->send + chunk * r->each * r->elem;
	char *to = ddp__shm_in(r->s, r->s->me, step);
	size_t after = own.at + own.len;

	memcpy(to, from, own.at * r->elem);
	memcpy(to + after * r->elem, from + after * r->elem,
	       (chunk_len(r, chunk) - after) * r->elem);
}

static void reduce_chunk(const struct sliced *r, size_t chunk,
			 uint32_t in_step, uint32_t out_step)
{
	struct slice_range own = slice_of(r, chunk, r->s->me);
	size_t at = (chunk * r->each + own.at) * r->elem;

	reduce_slice(r->s, r->call, in_step, own.at, r->send + at,
		     ddp__shm_out(r->s, r->s->me, out_step),
		     r->recv ? r->recv + at : NULL, own.len, r->divisor);
}

static void take_chunk(const struct sliced *r, size_t chunk, uint32_t step)
{
	char *to = r->recv + chunk * r->each * r->elem;

	/* My neighbour's first, so that not all read one rank's slot. */
	for (int k = 1; k < r->s->n; k++) {
		int i = (r->s->me + k) % r->s->n;
		struct slice_range part = slice_of(r, chunk, i);

		memcpy(to + part.at * r->elem, ddp__shm_out(r->s, i, step),
		       part.len * r->elem);
	}
}

/* A pipeline of three: in one step, chunk k goes in, slice by slice chunk k-1
 * is reduced, and chunk k-2 comes out. */
static int reduce_sliced(struct sliced *r, struct err *e)
{
	size_t chunks = (r->count + r->each - 1) / r->each;

	for (size_t k = 0; k < chunks + 2; k++) {
		uint32_t step = r->s->step + 1;
		int rc;

		if (k >= 2 && r->recv)
			take_chunk(r, k - 2, step - 1);
		if (k >= 1 && k <= chunks)
			reduce_chunk(r, k - 1, step - 1, step);
		if (k < chunks)
			put_chunk(r, k, step);
		if (k == chunks + 1)
			break; /* nobody reads what I would post */
		rc = next_step(r->s, k == 0, e);
		if (rc)
			return rc;
	}
	return 0;
}

int ddp__shm_reduce(struct ddp__shm *s, const struct ddp__call *call,
		    const void *send, void *recv, size_t count, int to,
		    int divisor, struct err *e)
{
	size_t elem = ddp_type_size(call->type);
	struct sliced r = {s,	  call,
			   send,  to == DDP__ALL || to == s->me ? recv : NULL,
			   count, chunk_elems(count, s->chunk, elem),
			   elem,  divisor};

	ddp__shm_begin(s, call);
	if (count * elem <= FLAT_MAX)
		return reduce_flat(s, call, send, recv, count, to, divisor, e);
	return reduce_sliced(&r, e);
}

int ddp__shm_reduce_scatter(struct ddp__shm *s, const struct ddp__call *call,
			    const void *send, void *recv, size_t count,
			    int divisor, struct err *e)
{
	size_t elem = ddp_type_size(call->type);
	size_t most = DDP__SHM_IN / (size_t)s->n / 64 * 64;
	size_t each = chunk_elems(count, min_size(most, s->chunk), elem);
	const char *from = send;

	ddp__shm_begin(s, call);
	for (size_t at = 0; at < count || at == 0; at += each) {
		size_t len = min_size(each, count - at);
		uint32_t step = s->step + 1;
		char *in = ddp__shm_in(s, s->me, step);
		int rc;

		for (int i = 0; i < s->n; i++)
			if (i != s->me)
				memcpy(in + (size_t)i * len * elem,
				       from + ((size_t)i * count + at) * elem,
				       len * elem);
		rc = next_step(s, at == 0, e);
		if (rc)
			return rc;
		reduce_slice(s, call, step, (size_t)s->me * len,
			     from + ((size_t)s->me * count + at) * elem, NULL,
			     (char *)recv + at * elem, len, divisor);
	}
	return 0;
}

/* memcpy of the part of [at, at+len) that lies in [skip, skip+size). */
static void take_window(void *to, size_t skip, size_t size, const char *from,
			size_t at, size_t len)
{
	size_t begin = at > skip ? at : skip;
	size_t end = min_size(at + len, skip + size);

	if (begin < end)
		memmove((char *)to + (begin - skip), from + (begin - at),
			end - begin);
}

int ddp__shm_broadcast(struct ddp__shm *s, const struct ddp__call *call,
		       int root, const void *from, size_t size, void *to,
		       size_t skip, size_t size_out, struct err *e)
{
	size_t each = chunk_elems(size, min_size(s->chunk, DDP__SHM_IN), 1);

	ddp__shm_begin(s, call);
	for (size_t at = 0; at < size || at == 0; at += each) {
		size_t len = min_size(each, size - at);
		uint32_t step = s->step + 1;
		int rc;

		if (s->me == root)
			memcpy(ddp__shm_in(s, root, step),
			       (const char *)from + at, len);
		rc = next_step(s, at == 0, e);
		if (rc)
			return rc;
		if (s->me != root)
			take_window(to, skip, size_out,
				    ddp__shm_in(s, root, step), at, len);
	}
	if (s->me == root && to != from && size_out)
		memmove(to, (const char *)from + skip, size_out);
	return 0;
}

int ddp__shm_gather(struct ddp__shm *s, const struct ddp__call *call,
		    const void *send, size_t size, void *recv,
		    const int *place, int to, struct err *e)
{
	size_t each = chunk_elems(size, min_size(s->chunk, DDP__SHM_IN), 1);
	int get = to == DDP__ALL || to == s->me;
	int my_place = place ? place[s->me] : s->me;
	char *own = (char *)recv + (size_t)my_place * size;

	ddp__shm_begin(s, call);
	for (size_t at = 0; at < size || at == 0; at += each) {
		size_t len = min_size(each, size - at);
		uint32_t step = s->step + 1;
		int rc;

		memcpy(ddp__shm_in(s, s->me, step), (const char *)send + at,
		       len);
		rc = next_step(s, at == 0, e);
		if (rc)
			return rc;
		for (int k = 1; get && k < s->n; k++) {
			int i = (s->me + k) % s->n;

			memcpy((char *)recv +
				       (size_t)(place ? place[i] : i) * size +
				       at,
			       ddp__shm_in(s, i, step), len);
		}
	}
	if (get && size && own != send)
		memcpy(own, send, size);
	return 0;
}

int ddp__shm_barrier(struct ddp__shm *s, const struct ddp__call *call,
		     struct err *e)
{
	ddp__shm_begin(s, call);
	return next_step(s, 1, e);
}

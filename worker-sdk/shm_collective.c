/* shm_collective.c: staged through the slots, a chunk a step; while a rank
 * works on one half of its slot the others read the other half. */
#include "worker-sdk/shm_collective.h"

#include <string.h>

#include "worker-sdk/copy.h"
#include "worker-sdk/reduce.h"

enum {
	/* Up to here every rank reduces everything itself: one step instead of
	 * two is worth n times the additions. Of two ranks each does so always:
	 * it reads no more of the other's than it would otherwise. */
	FLAT_MAX = 16 << 10,
	/* Its chunks: what was put is in L2 yet when it is reduced. */
	PAIR_CHUNK = 256 << 10,
	/* A slice is reduced in pieces that stay in L1. */
	PIECE = 8 << 10,
	/* A result of this many bytes leaves nothing of itself in the caches,
	 * so it is written past them, and what was there is not read first:
	 * at 16 MiB and 2 ranks 1.5 times as fast, at 4 MiB still slower. */
	STREAM_MIN = 8 << 20
};

enum { FRESH, READY, WAITING, DONE };

/* What work says: nothing is left; post, and go on when all have; post, and
 * that was all: who only gives need not wait for those who take. The next
 * operation does so before it touches the slot. */
enum { NOTHING, POST, LAST };

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

/* Chunk k of an operation; no elements: one empty chunk. */
struct chunk {
	size_t at, len;
};

static struct chunk chunk_of(const struct ddp__shm_op *op, size_t k)
{
	size_t at = min_size(op->count, k * op->each);

	return (struct chunk){at, min_size(op->each, op->count - at)};
}

static int is_chunk(const struct ddp__shm_op *op, size_t k)
{
	return k == 0 || k * op->each < op->count;
}

static void copy(void *to, const void *from, size_t size)
{
	if (size)
		memcpy(to, from, size);
}

/* Writes a part of what this rank gets. */
static void give(const struct ddp__shm_op *op, char *to, const char *from,
		 size_t size)
{
	if (op->stream)
		ddp__copy_stream(to, from, size);
	else
		copy(to, from, size);
}

/* ---- reduce */

static void put(const struct ddp__shm_op *op, char *to, const char *from,
		size_t size)
{
	ddp__put(&op->s->put, to, from, size);
}

static int is_tiny(const struct ddp__shm_op *op)
{
	return op->count * op->elem <= DDP__SHM_TINY;
}

/* Where rank i has what it posted with a step. */
static char *flat_in(const struct ddp__shm_op *op, int i, uint32_t step)
{
	struct ddp__shm *s = op->s;

	return is_tiny(op) ? (char *)ddp__shm_control(s, i)->tiny[step & 1]
			   : ddp__shm_in(s, i, step);
}

static void reduce_flat(const struct ddp__shm_op *op, struct chunk c)
{
	struct ddp__shm *s = op->s;
	size_t at = c.at * op->elem;

	for (int i = 0; i < s->n; i++)
		s->sources[i] = flat_in(op, i, s->step);
	/* not out of my slot, which may have gone past the caches */
	if (s->n == 2)
		s->sources[s->me] = op->send + at;
	ddp__reduce_stream(op->recv + at, s->sources, s->n, c.len,
			   op->call->type, op->call->op, op->divisor,
			   op->stream);
}

/* Everyone writes all, everyone reduces all. */
static int flat_work(struct ddp__shm_op *op)
{
	uint32_t step = op->s->step + 1;
	size_t k = op->k;
	struct chunk c;
	char *to;

	if (k && op->recv)
		reduce_flat(op, chunk_of(op, k - 1));
	if (!is_chunk(op, k))
		return NOTHING;
	c = chunk_of(op, k);
	to = flat_in(op, op->s->me, step);
	if (is_tiny(op))
		copy(to, op->send, op->count * op->elem);
	else
		put(op, to, op->send + c.at * op->elem, c.len * op->elem);
	return op->recv || is_chunk(op, k + 1) ? POST : LAST;
}

/* Reduces `count` elements that lie `at` elements into everyone's input of a
 * step, mine at `own` instead, into shared (may be NULL) and recv (may be
 * NULL). recv may be `own`: so the result is made elsewhere. */
static void reduce_slice(const struct ddp__shm_op *op, uint32_t step, size_t at,
			 const char *own, char *shared, char *recv,
			 size_t count)
{
	struct ddp__shm *s = op->s;
	size_t elem = op->elem, piece = PIECE / elem;
	char bounce[PIECE];
	int streams = ddp__put_streams(&s->put, count * elem);

	for (size_t done = 0; done < count; done += piece) {
		size_t len = min_size(piece, count - done);
		char *dst = shared && !streams ? shared + done * elem : bounce;

		for (int i = 0; i < s->n; i++)
			s->sources[i] = i == s->me
						? own + done * elem
						: ddp__shm_in(s, i, step) +
							  (at + done) * elem;
		ddp__reduce(dst, s->sources, s->n, len, op->call->type,
			    op->call->op, op->divisor);
		if (shared && streams)
			ddp__copy_stream(shared + done * elem, dst, len * elem);
		if (recv)
			give(op, recv + done * elem, dst, len * elem);
	}
	if (shared && streams)
		ddp__copy_done();
}

/* Slice i of a chunk; slices are whole cache lines, so the last may be short
 * or empty. */
static struct chunk slice_of(const struct ddp__shm_op *op, size_t k, int i)
{
	size_t n = chunk_of(op, k).len, line = 64 / op->elem;
	size_t parts = (size_t)op->s->n;
	size_t part = ((n + parts - 1) / parts + line - 1) / line * line;
	size_t at = min_size(n, part * (size_t)i);

	return (struct chunk){at, min_size(part, n - at)};
}

/* All but my own slice, which only I need. */
static void put_slices(const struct ddp__shm_op *op, size_t k, uint32_t step)
{
	struct chunk c = chunk_of(op, k), own = slice_of(op, k, op->s->me);
	const char *from = op->send + c.at * op->elem;
	char *to = ddp__shm_in(op->s, op->s->me, step);
	size_t after = own.at + own.len;

	put(op, to, from, own.at * op->elem);
	put(op, to + after * op->elem, from + after * op->elem,
	    (c.len - after) * op->elem);
}

static void reduce_own(const struct ddp__shm_op *op, size_t k, uint32_t in,
		       uint32_t out)
{
	struct chunk own = slice_of(op, k, op->s->me);
	size_t at = (chunk_of(op, k).at + own.at) * op->elem;

	reduce_slice(op, in, own.at, op->send + at,
		     ddp__shm_out(op->s, op->s->me, out),
		     op->recv ? op->recv + at : NULL, own.len);
}

static void take_slices(const struct ddp__shm_op *op, size_t k, uint32_t step)
{
	char *to = op->recv + chunk_of(op, k).at * op->elem;

	/* My neighbour's first, so that not all read one rank's slot. */
	for (int j = 1; j < op->s->n; j++) {
		int i = (op->s->me + j) % op->s->n;
		struct chunk part = slice_of(op, k, i);

		give(op, to + part.at * op->elem, ddp__shm_out(op->s, i, step),
		     part.len * op->elem);
	}
}

/* A pipeline of three: in one step, chunk k goes in, slice by slice chunk k-1
 * is reduced, and chunk k-2 comes out. */
static int sliced_work(struct ddp__shm_op *op)
{
	uint32_t step = op->s->step + 1;
	size_t k = op->k;

	if (k >= 2 && op->recv)
		take_slices(op, k - 2, step - 1);
	if (k >= 2 && !is_chunk(op, k - 1))
		return 0; /* nobody reads what I would post */
	if (k >= 1 && is_chunk(op, k - 1))
		reduce_own(op, k - 1, step - 1, step);
	if (is_chunk(op, k))
		put_slices(op, k, step);
	return k && !is_chunk(op, k) && !op->recv ? LAST : POST;
}

void ddp__shm_reduce(struct ddp__shm_op *op, struct ddp__shm *s,
		     const struct ddp__call *call, const void *send, void *recv,
		     size_t count, int to, int divisor)
{
	size_t elem = ddp_type_size(call->type);
	size_t most = s->n == 2 ? min_size(s->chunk, PAIR_CHUNK) : s->chunk;

	*op = (struct ddp__shm_op){
		.s = s,
		.call = call,
		.work = count * elem <= FLAT_MAX || s->n == 2 ? flat_work
							      : sliced_work,
		.send = send,
		.recv = to == DDP__ALL || to == s->me ? recv : NULL,
		.count = count,
		.elem = elem,
		.each = chunk_elems(count, most, elem),
		/* in place it has been read anyway */
		.stream = send != recv && count * elem >= STREAM_MIN,
		.divisor = divisor};
}

/* ---- pieces for each rank in one slot */

/* Elements of a chunk of which a slot's half holds n. */
static size_t share_elems(const struct ddp__shm *s, size_t count, size_t elem)
{
	size_t most = DDP__SHM_IN / (size_t)s->n / 64 * 64;

	return chunk_elems(count, min_size(most, s->chunk), elem);
}

static int reduce_scatter_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	uint32_t step = s->step + 1;
	size_t elem = op->elem, me = (size_t)s->me, k = op->k;

	if (k) {
		struct chunk c = chunk_of(op, k - 1);

		reduce_slice(op, step - 1, me * c.len,
			     op->send + (me * op->count + c.at) * elem, NULL,
			     op->recv + c.at * elem, c.len);
	}
	if (!is_chunk(op, k))
		return 0;
	for (int i = 0; i < s->n; i++) {
		struct chunk c = chunk_of(op, k);

		if (i == s->me)
			continue;
		put(op, ddp__shm_in(s, s->me, step) + (size_t)i * c.len * elem,
		    op->send + ((size_t)i * op->count + c.at) * elem,
		    c.len * elem);
	}
	return 1;
}

void ddp__shm_reduce_scatter(struct ddp__shm_op *op, struct ddp__shm *s,
			     const struct ddp__call *call, const void *send,
			     void *recv, size_t count, int divisor)
{
	size_t elem = ddp_type_size(call->type);

	*op = (struct ddp__shm_op){.s = s,
				   .call = call,
				   .work = reduce_scatter_work,
				   .send = send,
				   .recv = recv,
				   .count = count,
				   .elem = elem,
				   .each = share_elems(s, count, elem),
				   .stream = count * elem >= STREAM_MIN,
				   .divisor = divisor};
}

static size_t place_of(const struct ddp__shm_op *op, int i)
{
	return (size_t)(op->place ? op->place[i] : i) * op->count;
}

/* Puts chunk k of each rank's block at send into my slot. */
static void put_blocks(const struct ddp__shm_op *op, size_t k)
{
	struct ddp__shm *s = op->s;
	struct chunk c = chunk_of(op, k);
	char *to = ddp__shm_in(s, s->me, s->step + 1);

	for (int i = 0; i < s->n; i++)
		if (i != s->me)
			put(op, to + (size_t)i * c.len,
			    op->send + place_of(op, i) + c.at, c.len);
}

/* My block's chunk k, out of rank i's slot. */
static void take_block(const struct ddp__shm_op *op, int i, size_t k, char *to)
{
	struct ddp__shm *s = op->s;
	struct chunk c = chunk_of(op, k);

	copy(to + c.at, ddp__shm_in(s, i, s->step) + (size_t)s->me * c.len,
	     c.len);
}

static int scatter_work(struct ddp__shm_op *op)
{
	if (op->to != op->s->me) {
		if (op->k)
			take_block(op, op->to, op->k - 1, op->recv);
		return is_chunk(op, op->k) ? POST : NOTHING;
	}
	put_blocks(op, op->k);
	if (is_chunk(op, op->k + 1))
		return POST;
	if (op->recv != op->send + place_of(op, op->to))
		copy(op->recv, op->send + place_of(op, op->to), op->count);
	return LAST;
}

void ddp__shm_scatter(struct ddp__shm_op *op, struct ddp__shm *s,
		      const struct ddp__call *call, int root, const void *send,
		      size_t size, void *recv, const int *place)
{
	*op = (struct ddp__shm_op){.s = s,
				   .call = call,
				   .work = scatter_work,
				   .send = send,
				   .recv = recv,
				   .place = place,
				   .count = size,
				   .elem = 1,
				   .each = share_elems(s, size, 1),
				   .to = root};
}

static int all_to_all_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	size_t own = place_of(op, s->me);

	for (int j = 1; op->k && j < s->n; j++) {
		int i = (s->me + j) % s->n;

		take_block(op, i, op->k - 1, op->recv + place_of(op, i));
	}
	if (is_chunk(op, op->k)) {
		put_blocks(op, op->k);
		return 1;
	}
	if (op->send != op->recv)
		copy(op->recv + own, op->send + own, op->count);
	return 0;
}

void ddp__shm_all_to_all(struct ddp__shm_op *op, struct ddp__shm *s,
			 const struct ddp__call *call, const void *send,
			 size_t size, void *recv, const int *place)
{
	*op = (struct ddp__shm_op){.s = s,
				   .call = call,
				   .work = all_to_all_work,
				   .send = send,
				   .recv = recv,
				   .place = place,
				   .count = size,
				   .elem = 1,
				   .each = share_elems(s, size, 1)};
}

/* ---- one block in a slot */

/* memcpy of the part of chunk c that lies in the window that I take. */
static void take_window(const struct ddp__shm_op *op, struct chunk c)
{
	size_t begin = c.at > op->skip ? c.at : op->skip;
	size_t end = min_size(c.at + c.len, op->skip + op->size_out);

	if (begin < end)
		give(op, op->recv + (begin - op->skip),
		     ddp__shm_in(op->s, op->to, op->s->step) + (begin - c.at),
		     end - begin);
}

static int broadcast_work(struct ddp__shm_op *op)
{
	struct chunk c = chunk_of(op, op->k);

	if (op->to != op->s->me) {
		if (op->k)
			take_window(op, chunk_of(op, op->k - 1));
		return is_chunk(op, op->k) ? POST : NOTHING;
	}
	put(op, ddp__shm_in(op->s, op->to, op->s->step + 1), op->send + c.at,
	    c.len);
	if (is_chunk(op, op->k + 1))
		return POST;
	if (op->recv != op->send && op->size_out)
		memmove(op->recv, op->send + op->skip, op->size_out);
	return LAST;
}

void ddp__shm_broadcast(struct ddp__shm_op *op, struct ddp__shm *s,
			const struct ddp__call *call, int root,
			const void *from, size_t size, void *to, size_t skip,
			size_t size_out)
{
	*op = (struct ddp__shm_op){.s = s,
				   .call = call,
				   .work = broadcast_work,
				   .send = from,
				   .recv = to,
				   .count = size,
				   .elem = 1,
				   .each = chunk_elems(size, s->chunk, 1),
				   .skip = skip,
				   .size_out = size_out,
				   .stream = size_out >= STREAM_MIN,
				   .to = root};
}

static int gather_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	struct chunk c = chunk_of(op, op->k), last;
	size_t own = place_of(op, s->me);

	if (op->k && op->recv) {
		last = chunk_of(op, op->k - 1);
		for (int j = 1; j < s->n; j++) {
			int i = (s->me + j) % s->n;

			give(op, op->recv + place_of(op, i) + last.at,
			     ddp__shm_in(s, i, s->step), last.len);
		}
	}
	if (is_chunk(op, op->k)) {
		if (op->to != s->me)
			put(op, ddp__shm_in(s, s->me, s->step + 1),
			    op->send + c.at, c.len);
		return op->recv || is_chunk(op, op->k + 1) ? POST : LAST;
	}
	if (op->recv && op->recv + own != op->send)
		give(op, op->recv + own, op->send, op->count);
	return 0;
}

void ddp__shm_gather(struct ddp__shm_op *op, struct ddp__shm *s,
		     const struct ddp__call *call, const void *send,
		     size_t size, void *recv, const int *place, int to)
{
	*op = (struct ddp__shm_op){
		.s = s,
		.call = call,
		.work = gather_work,
		.send = send,
		.recv = to == DDP__ALL || to == s->me ? recv : NULL,
		.place = place,
		.count = size,
		.elem = 1,
		.each = chunk_elems(size, s->chunk, 1),
		.stream = size * (size_t)s->n >= STREAM_MIN,
		.to = to};
}

static int barrier_work(struct ddp__shm_op *op)
{
	return op->k == 0;
}

void ddp__shm_barrier(struct ddp__shm_op *op, struct ddp__shm *s,
		      const struct ddp__call *call)
{
	*op = (struct ddp__shm_op){.s = s, .call = call, .work = barrier_work};
}

/* ---- moving on */

/* Works and posts; 0: it is done. */
static int go_on(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	int what;

	if (op->state == FRESH)
		ddp__shm_begin(s, op->call);
	what = op->state == DONE ? NOTHING : op->work(op);
	if (what != NOTHING) {
		ddp__shm_post(s);
		op->k++;
	}
	if (what == LAST) {
		s->waits = 0;
		s->behind = op->k == 1 ? DDP__SHM_FIRST : DDP__SHM_LATER;
	}
	if (what != POST && op->stream)
		ddp__copy_done();
	op->state = what == POST ? WAITING : DONE;
	return what == POST;
}

/* What it has to wait for before it goes on. */
static int awaits(const struct ddp__shm_op *op)
{
	if (op->state == WAITING)
		return op->k == 1 ? DDP__SHM_FIRST : DDP__SHM_LATER;
	return op->state == FRESH ? op->s->behind : 0;
}

int ddp__shm_advance(struct ddp__shm_op *op, struct err *e)
{
	do {
		int what = awaits(op), rc;

		if (what) {
			op->s->waits = 1;
			rc = ddp__shm_arrived(op->s, what == DDP__SHM_FIRST, e);
			if (rc <= 0)
				return rc;
			op->s->behind = 0;
		}
	} while (go_on(op));
	return 1;
}

int ddp__shm_run(struct ddp__shm_op *op, struct err *e)
{
	int rc = 0;

	do {
		int what = awaits(op);

		if (what) {
			rc = what == DDP__SHM_FIRST
				     ? ddp__shm_wait_first(op->s, e)
				     : ddp__shm_wait(op->s, e);
			op->s->behind = 0;
		}
	} while (!rc && go_on(op));
	return rc;
}

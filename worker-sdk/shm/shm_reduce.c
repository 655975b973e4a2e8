/* shm_reduce.c: reductions among the ranks of a host. */
#include "worker-sdk/math/reduce.h"
#include "worker-sdk/shm/shm_chunk.h"

enum {
	/* Up to this size every rank reduces everything itself: saving one of
	 * two steps is worth n times the additions. Two ranks always do so:
	 * neither reads more of the other's data than otherwise. */
	FLAT_MAX = 16 << 10,
	/* Chunks for two ranks, of what is larger than the caches: the chunk
	 * put before is still in L2 when it is reduced. Smaller ones use all
	 * of half a slot: each chunk is a wait for the other rank, which costs
	 * a time slice if other programs use the CPUs (in place, 4 MiB take
	 * 190 us instead of 380, 1 MiB 48 instead of 107). */
	PAIR_CHUNK = 256 << 10,
	/* A slice is reduced in pieces that stay in L1. */
	PIECE = 8 << 10
};

static int op_is_tiny(const struct ddp__shm_op *op)
{
	return op->count * op->elem <= DDP__SHM_TINY;
}

/* Rank i's input for a step. */
static char *flat_input(const struct ddp__shm_op *op, int i, uint32_t step)
{
	struct ddp__shm *s = op->s;

	return op_is_tiny(op) ? (char *)ddp__shm_control(s, i)->tiny[step & 1]
			      : ddp__shm_in(s, i, step);
}

static void flat_reduce(const struct ddp__shm_op *op, struct chunk c)
{
	struct ddp__shm *s = op->s;
	size_t at = c.at * op->elem;

	for (int i = 0; i < s->n; i++)
		s->sources[i] = flat_input(op, i, s->step);
	/* not from this rank's slot, because its stores may have bypassed the
	 * caches */
	if (s->n == 2)
		s->sources[s->me] = op->send + at;
	ddp__reduce_stream(op->recv + at, s->sources, s->n, c.len,
			   op->call->type, op->call->op, op->divisor,
			   op->stream);
}

/* Every rank puts all of its data, and every rank reduces all of it. */
static int flat_work(struct ddp__shm_op *op)
{
	uint32_t step = op->s->step + 1;
	size_t k = op->k;
	struct chunk c;
	char *to;

	if (k && op->recv)
		flat_reduce(op, chunk_of(op, k - 1));
	if (!is_chunk(op, k))
		return DDP__NOTHING;
	c = chunk_of(op, k);
	to = flat_input(op, op->s->me, step);
	if (op_is_tiny(op))
		ddp__copy_plain(to, op->send, op->count * op->elem);
	else
		chunk_put(op, to, op->send + c.at * op->elem, c.len * op->elem);
	return op->recv || is_chunk(op, k + 1) ? DDP__POST : DDP__LAST;
}

/* Reduces `count` elements from element `at` of every rank's input of a step,
 * taking this rank's input from `own`, into shared and recv (either may be
 * NULL). recv may be `own`: the result is then computed in a buffer first. */
static void slice_reduce(const struct ddp__shm_op *op, uint32_t step, size_t at,
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
			s->sources[i] = i == s->me ? own + done * elem
						   : ddp__shm_in(s, i, step) +
							     (at + done) * elem;
		ddp__reduce(dst, s->sources, s->n, len, op->call->type,
			    op->call->op, op->divisor);
		if (shared && streams)
			ddp__copy_stream(shared + done * elem, dst, len * elem);
		if (recv)
			chunk_give(op, recv + done * elem, dst, len * elem);
	}
	if (shared && streams)
		ddp__copy_done();
}

/* Slice i of a chunk; slices are whole cache lines, so the last may be short
 * or empty. */
static struct chunk slice_at(const struct ddp__shm_op *op, size_t k, int i)
{
	size_t n = chunk_of(op, k).len, line = 64 / op->elem;
	size_t parts = (size_t)op->s->n;
	size_t part = ((n + parts - 1) / parts + line - 1) / line * line;
	size_t at = min_size(n, part * (size_t)i);

	return (struct chunk){at, min_size(part, n - at)};
}

/* Puts all slices but this rank's own, which no other rank needs. */
static void slices_put(const struct ddp__shm_op *op, size_t k, uint32_t step)
{
	struct chunk c = chunk_of(op, k), own = slice_at(op, k, op->s->me);
	const char *from = op->send + c.at * op->elem;
	char *to = ddp__shm_in(op->s, op->s->me, step);
	size_t after = own.at + own.len;

	chunk_put(op, to, from, own.at * op->elem);
	chunk_put(op, to + after * op->elem, from + after * op->elem,
		  (c.len - after) * op->elem);
}

static void slice_reduce_own(const struct ddp__shm_op *op, size_t k,
			     uint32_t in, uint32_t out)
{
	struct chunk own = slice_at(op, k, op->s->me);
	size_t at = (chunk_of(op, k).at + own.at) * op->elem;

	slice_reduce(op, in, own.at, op->send + at,
		     ddp__shm_out(op->s, op->s->me, out),
		     op->recv ? op->recv + at : NULL, own.len);
}

static void slices_take(const struct ddp__shm_op *op, size_t k, uint32_t step)
{
	char *to = op->recv + chunk_of(op, k).at * op->elem;

	/* Starts with the neighbour's slice, so that not all ranks read one
	 * slot. */
	for (int j = 1; j < op->s->n; j++) {
		int i = (op->s->me + j) % op->s->n;
		struct chunk part = slice_at(op, k, i);

		chunk_give(op, to + part.at * op->elem,
			   ddp__shm_out(op->s, i, step), part.len * op->elem);
	}
}

/* A pipeline of three: in one step chunk k is put, chunk k-1 is reduced slice
 * by slice, and chunk k-2 is taken. */
static int sliced_work(struct ddp__shm_op *op)
{
	uint32_t step = op->s->step + 1;
	size_t k = op->k;

	if (k >= 2 && op->recv)
		slices_take(op, k - 2, step - 1);
	if (k >= 2 && !is_chunk(op, k - 1))
		return 0; /* no rank needs a post from this one */
	if (k >= 1 && is_chunk(op, k - 1))
		slice_reduce_own(op, k - 1, step - 1, step);
	if (is_chunk(op, k))
		slices_put(op, k, step);
	return k && !is_chunk(op, k) && !op->recv ? DDP__LAST : DDP__POST;
}

void ddp__shm_reduce(void *op, void *shm, const struct ddp__call *call,
		     const void *send, void *recv, size_t count, int to,
		     int divisor)
{
	struct ddp__shm *s = shm;
	size_t elem = ddp_type_size(call->type);
	size_t most = s->chunk;

	if (s->n == 2 && count * elem >= DDP__STREAM_MIN)
		most = min_size(most, PAIR_CHUNK);
	*(struct ddp__shm_op *)op = (struct ddp__shm_op){
		.s = s,
		.call = call,
		.work = count * elem <= FLAT_MAX || s->n == 2 ? flat_work
							      : sliced_work,
		.send = send,
		.recv = to == DDP__ALL || to == s->me ? recv : NULL,
		.count = count,
		.elem = elem,
		.each = chunk_elems(count, most, elem),
		/* in place the result's lines have been read already */
		.stream = send != recv && count * elem >= DDP__STREAM_MIN,
		.divisor = divisor};
}

static int reduce_scatter_v_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	uint32_t step = s->step + 1;
	size_t elem = op->elem, k = op->k;
	const size_t *begin = op->send_begin;

	if (k) {
		size_t own = begin[s->me] * elem;
		struct chunk c =
			share_piece(ddp__count_of(begin, s->me) * elem,
				    op->pieces, k - 1);

		slice_reduce(op, step - 1,
			     share_at(own, s->me, op->pieces) / elem,
			     op->send + own + c.at, NULL, op->recv + c.at,
			     c.len / elem);
	}
	if (k == op->pieces)
		return DDP__NOTHING;
	if (!k)
		ddp__shm_put_counts(op);
	for (int i = 0; i < s->n; i++) {
		struct chunk c = share_piece(ddp__count_of(begin, i) * elem,
					     op->pieces, k);

		if (i != s->me)
			chunk_put(op,
				  ddp__shm_in(s, s->me, step) +
					  share_at(begin[i] * elem, i,
						   op->pieces),
				  op->send + begin[i] * elem + c.at, c.len);
	}
	return DDP__POST;
}

void ddp__shm_reduce_scatter_v(void *op, void *shm,
			       const struct ddp__call *call,
			       const struct ddp__counts *v, const void *send,
			       void *recv, int divisor)
{
	struct ddp__shm *s = shm;
	size_t elem = ddp_type_size(call->type);

	*(struct ddp__shm_op *)op = (struct ddp__shm_op){
		.s = s,
		.call = call,
		.work = reduce_scatter_v_work,
		.check = ddp__shm_check_counts,
		.send = send,
		.recv = recv,
		.counts = v,
		.send_begin = v->send,
		.pieces = share_pieces(s, v->send[v->n] * elem),
		.elem = elem,
		.stream = ddp__count_of(v->send, s->me) * elem >=
			  DDP__STREAM_MIN,
		.divisor = divisor};
}

static int reduce_scatter_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	uint32_t step = s->step + 1;
	size_t elem = op->elem, me = (size_t)s->me, k = op->k;

	if (k) {
		struct chunk c = chunk_of(op, k - 1);

		slice_reduce(op, step - 1, me * c.len,
			     op->send + (me * op->count + c.at) * elem, NULL,
			     op->recv + c.at * elem, c.len);
	}
	if (!is_chunk(op, k))
		return 0;
	for (int i = 0; i < s->n; i++) {
		struct chunk c = chunk_of(op, k);

		if (i == s->me)
			continue;
		chunk_put(op,
			  ddp__shm_in(s, s->me, step) +
				  (size_t)i * c.len * elem,
			  op->send + ((size_t)i * op->count + c.at) * elem,
			  c.len * elem);
	}
	return 1;
}

void ddp__shm_reduce_scatter(void *op, void *shm, const struct ddp__call *call,
			     const void *send, void *recv, size_t count,
			     int divisor)
{
	struct ddp__shm *s = shm;
	size_t elem = ddp_type_size(call->type);

	*(struct ddp__shm_op *)op =
		(struct ddp__shm_op){.s = s,
				     .call = call,
				     .work = reduce_scatter_work,
				     .send = send,
				     .recv = recv,
				     .count = count,
				     .elem = elem,
				     .each = share_elems(s, count, elem),
				     .stream = count * elem >= DDP__STREAM_MIN,
				     .divisor = divisor};
}

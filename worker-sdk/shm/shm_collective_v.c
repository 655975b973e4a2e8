/* shm_collective_v.c: all_gather and all_to_all with a count for each rank.
 * With its first step a rank posts its counts as well, in the half of its slot
 * that reductions use for results. */
#include <string.h>

#include "worker-sdk/shm/shm_chunk.h"

/* ---- counts that are the same on all ranks: a digest, then the numbers */

/* The numbers that fit. More ranks than this differ without being named. */
enum { COUNTS_MAX = DDP__SHM_OUT / sizeof(size_t) - 2 };

static int counts_known(const struct ddp__counts *v)
{
	return v->n < COUNTS_MAX ? v->n : COUNTS_MAX;
}

static size_t *op_numbers(const struct ddp__shm_op *op, int i, uint32_t step)
{
	return (size_t *)(void *)ddp__shm_out(op->s, i, step);
}

void ddp__shm_put_counts(const struct ddp__shm_op *op)
{
	const struct ddp__counts *v = op->counts;
	size_t *to = op_numbers(op, op->s->me, op->s->step + 1);

	to[0] = v->digest;
	memcpy(to + 1, v->recv, ((size_t)counts_known(v) + 1) * sizeof(*to));
}

int ddp__shm_check_counts(const struct ddp__shm_op *op, struct err *e)
{
	const struct ddp__counts *v = op->counts;
	struct ddp__shm *s = op->s;

	for (int i = 0; i < s->n; i++) {
		const size_t *other = op_numbers(op, i, s->step);

		if (other[0] != v->digest)
			return ddp__counts_differ(op->call, s->peers,
						  s->ranks[i], other + 1,
						  s->ranks[s->me], v->recv,
						  counts_known(v), e);
	}
	return 0;
}

/* ---- all_gather */

static int op_block(const struct ddp__shm_op *op, int i)
{
	return op->place ? op->place[i] : i;
}

/* Chunk k of rank i's block; smaller blocks have fewer chunks. */
static struct chunk block_chunk(const struct ddp__shm_op *op, int i, size_t k)
{
	size_t size = ddp__count_of(op->recv_begin, op_block(op, i)) * op->elem;
	size_t at = min_size(size, k * op->each);

	return (struct chunk){at, min_size(op->each, size - at)};
}

static char *block_in_recv(const struct ddp__shm_op *op, int i)
{
	return op->recv + op->recv_begin[op_block(op, i)] * op->elem;
}

static int all_gather_v_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	struct chunk c;

	for (int j = 1; op->k && op->recv && j < s->n; j++) {
		int i = (s->me + j) % s->n;

		c = block_chunk(op, i, op->k - 1);
		chunk_give(op, block_in_recv(op, i) + c.at,
			   ddp__shm_in(s, i, s->step), c.len);
	}
	if (is_chunk(op, op->k)) {
		if (!op->k)
			ddp__shm_put_counts(op);
		c = block_chunk(op, s->me, op->k);
		chunk_put(op, ddp__shm_in(s, s->me, s->step + 1),
			  op->send + c.at, c.len);
		return DDP__POST;
	}
	if (op->recv && block_in_recv(op, s->me) != op->send)
		chunk_give(op, block_in_recv(op, s->me), op->send,
			   ddp__count_of(op->recv_begin, op_block(op, s->me)) *
				   op->elem);
	return DDP__NOTHING;
}

void ddp__shm_all_gather_v(void *op, void *shm, const struct ddp__call *call,
			   const struct ddp__counts *v, size_t elem,
			   const void *send, void *recv, const int *place)
{
	struct ddp__shm *s = shm;
	size_t most = 0, all = v->recv[v->n] * elem;

	for (int i = 0; i < s->n; i++) {
		size_t n = ddp__count_of(v->recv, place ? place[i] : i);

		most = n * elem > most ? n * elem : most;
	}
	*(struct ddp__shm_op *)op =
		(struct ddp__shm_op){.s = s,
				     .call = call,
				     .work = all_gather_v_work,
				     .check = ddp__shm_check_counts,
				     .send = send,
				     .recv = recv,
				     .place = place,
				     .counts = v,
				     .recv_begin = v->recv,
				     .count = most,
				     .elem = elem,
				     .each = chunk_elems(most, s->chunk, 1),
				     .stream = all >= DDP__STREAM_MIN};
}

/* ---- all_to_all: each step carries the sender's numbers, which say where in
 * its slot a block is */

/* The bytes of rank i's blocks, except its own, which needs no slot; and those
 * that lie before its block for rank `to`. */
static size_t slot_bytes(const struct ddp__shm_op *op, const size_t *begin,
			 int i)
{
	return (begin[op->s->n] - ddp__count_of(begin, i)) * op->elem;
}

static size_t slot_begin(const struct ddp__shm_op *op, const size_t *begin,
			 int i, int to)
{
	return (begin[to] - (to > i ? ddp__count_of(begin, i) : 0)) * op->elem;
}

static void op_put_pieces(const struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	uint32_t step = s->step + 1;
	const size_t *begin = op->send_begin;
	size_t elem = op->elem;

	memcpy(op_numbers(op, s->me, step), begin,
	       ((size_t)s->n + 1) * sizeof(*begin));
	for (int i = 0; i < s->n && op->k < op->pieces; i++) {
		struct chunk c = share_piece(ddp__count_of(begin, i) * elem,
					     op->pieces, op->k);

		if (i != s->me)
			chunk_put(op,
				  ddp__shm_in(s, s->me, step) +
					  share_at(slot_begin(op, begin, s->me,
							      i),
						   i, op->pieces),
				  op->send + begin[i] * elem + c.at, c.len);
	}
}

/* Takes piece k of rank i's block for this rank. Returns the number of pieces
 * that rank i has. */
static size_t op_take_piece(const struct ddp__shm_op *op, int i, size_t k)
{
	struct ddp__shm *s = op->s;
	const size_t *begin = op_numbers(op, i, s->step);
	size_t elem = op->elem;
	size_t pieces = share_pieces(s, slot_bytes(op, begin, i));
	struct chunk c;

	if (k >= pieces)
		return pieces;
	c = share_piece(ddp__count_of(op->recv_begin, i) * elem, pieces, k);
	ddp__copy_plain(op->recv + op->recv_begin[i] * elem + c.at,
			ddp__shm_in(s, i, s->step) +
				share_at(slot_begin(op, begin, i, s->me), s->me,
					 pieces),
			c.len);
	return pieces;
}

static int all_to_all_v_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	size_t most = op->pieces, elem = op->elem;

	for (int j = 1; op->k && j < s->n; j++) {
		size_t pieces =
			op_take_piece(op, (s->me + j) % s->n, op->k - 1);

		most = pieces > most ? pieces : most;
	}
	if (op->k < most) {
		op_put_pieces(op);
		return DDP__POST;
	}
	ddp__copy_plain(op->recv + op->recv_begin[s->me] * elem,
			op->send + op->send_begin[s->me] * elem,
			ddp__count_of(op->send_begin, s->me) * elem);
	return DDP__NOTHING;
}

static int all_to_all_v_check(const struct ddp__shm_op *op, struct err *e)
{
	struct ddp__shm *s = op->s;

	for (int i = 0; i < s->n; i++) {
		size_t sent = ddp__count_of(op_numbers(op, i, s->step), s->me);
		size_t expected = ddp__count_of(op->recv_begin, i);

		if (sent != expected)
			return ddp__counts_mismatch(op->call, s->peers,
						    s->ranks[i], sent,
						    s->ranks[s->me], expected,
						    e);
	}
	return 0;
}

void ddp__shm_all_to_all_v(void *op, void *shm, const struct ddp__call *call,
			   size_t elem, const void *send,
			   const size_t *send_begin, void *recv,
			   const size_t *recv_begin)
{
	struct ddp__shm *s = shm;
	struct ddp__shm_op *o = op;

	*o = (struct ddp__shm_op){
		.s = s,
		.call = call,
		.work = all_to_all_v_work,
		.check = all_to_all_v_check,
		.send = send,
		.recv = recv,
		.send_begin = send_begin,
		.recv_begin = recv_begin,
		.elem = elem};
	o->pieces = share_pieces(s, slot_bytes(o, send_begin, s->me));
}

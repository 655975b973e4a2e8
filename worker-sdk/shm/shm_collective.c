/* shm_collective.c: moves bytes from one rank to all or from all to one through
 * the slots, and advances every operation. */
#include "worker-sdk/shm/shm_chunk.h"

enum { FRESH, WAITING, DONE };

/* ---- slots with a piece for each rank */

static size_t op_place(const struct ddp__shm_op *op, int i)
{
	return (size_t)(op->place ? op->place[i] : i) * op->count;
}

/* Puts chunk k of each rank's block at send into this rank's slot. */
static void op_put_blocks(const struct ddp__shm_op *op, size_t k)
{
	struct ddp__shm *s = op->s;
	struct chunk c = chunk_of(op, k);
	char *to = ddp__shm_in(s, s->me, s->step + 1);

	for (int i = 0; i < s->n; i++)
		if (i != s->me)
			chunk_put(op, to + (size_t)i * c.len,
				  op->send + op_place(op, i) + c.at, c.len);
}

/* Takes this rank's block of chunk k out of rank i's slot. */
static void op_take_block(const struct ddp__shm_op *op, int i, size_t k,
			  char *to)
{
	struct ddp__shm *s = op->s;
	struct chunk c = chunk_of(op, k);

	ddp__copy_plain(
		to + c.at,
		ddp__shm_in(s, i, s->step) + (size_t)s->me * c.len, c.len);
}

static int scatter_work(struct ddp__shm_op *op)
{
	if (op->to != op->s->me) {
		if (op->k)
			op_take_block(op, op->to, op->k - 1, op->recv);
		return is_chunk(op, op->k) ? DDP__POST : DDP__NOTHING;
	}
	op_put_blocks(op, op->k);
	if (is_chunk(op, op->k + 1))
		return DDP__POST;
	if (op->recv != op->send + op_place(op, op->to))
		ddp__copy_plain(op->recv, op->send + op_place(op, op->to),
				op->count);
	return DDP__LAST;
}

void ddp__shm_scatter(void *op, void *shm, const struct ddp__call *call,
		      int root, const void *send, size_t size, void *recv,
		      const int *place)
{
	struct ddp__shm *s = shm;

	*(struct ddp__shm_op *)op =
		(struct ddp__shm_op){.s = s,
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
	size_t own = op_place(op, s->me);

	for (int j = 1; op->k && j < s->n; j++) {
		int i = (s->me + j) % s->n;

		op_take_block(op, i, op->k - 1, op->recv + op_place(op, i));
	}
	if (is_chunk(op, op->k)) {
		op_put_blocks(op, op->k);
		return 1;
	}
	if (op->send != op->recv)
		ddp__copy_plain(op->recv + own, op->send + own, op->count);
	return 0;
}

void ddp__shm_all_to_all(void *op, void *shm, const struct ddp__call *call,
			 const void *send, size_t size, void *recv,
			 const int *place)
{
	struct ddp__shm *s = shm;

	*(struct ddp__shm_op *)op =
		(struct ddp__shm_op){.s = s,
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

/* Copies the part of chunk c that lies in this rank's window. */
static void op_take_window(const struct ddp__shm_op *op, struct chunk c)
{
	size_t begin = c.at > op->skip ? c.at : op->skip;
	size_t end = min_size(c.at + c.len, op->skip + op->size_out);

	if (begin < end)
		chunk_give(op, op->recv + (begin - op->skip),
			   ddp__shm_in(op->s, op->to, op->s->step) +
				   (begin - c.at),
			   end - begin);
}

static int broadcast_work(struct ddp__shm_op *op)
{
	struct chunk c = chunk_of(op, op->k);

	if (op->to != op->s->me) {
		if (op->k)
			op_take_window(op, chunk_of(op, op->k - 1));
		return is_chunk(op, op->k) ? DDP__POST : DDP__NOTHING;
	}
	chunk_put(op, ddp__shm_in(op->s, op->to, op->s->step + 1),
		  op->send + c.at, c.len);
	if (is_chunk(op, op->k + 1))
		return DDP__POST;
	if (op->recv != op->send)
		ddp__move(op->recv, op->send + op->skip, op->size_out);
	return DDP__LAST;
}

void ddp__shm_broadcast(void *op, void *shm, const struct ddp__call *call,
			int root, const void *from, size_t size, void *to,
			size_t skip, size_t size_out)
{
	struct ddp__shm *s = shm;

	*(struct ddp__shm_op *)op =
		(struct ddp__shm_op){.s = s,
				     .call = call,
				     .work = broadcast_work,
				     .send = from,
				     .recv = to,
				     .count = size,
				     .elem = 1,
				     .each = chunk_elems(size, s->chunk, 1),
				     .skip = skip,
				     .size_out = size_out,
				     .stream = size_out >= DDP__STREAM_MIN,
				     .small = size <= DDP__SHM_CELL,
				     .to = root};
}

static int gather_work(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	struct chunk c = chunk_of(op, op->k), last;
	size_t own = op_place(op, s->me);

	if (op->k && op->recv) {
		last = chunk_of(op, op->k - 1);
		for (int j = 1; j < s->n; j++) {
			int i = (s->me + j) % s->n;

			chunk_give(op, op->recv + op_place(op, i) + last.at,
				   ddp__shm_in(s, i, s->step), last.len);
		}
	}
	if (is_chunk(op, op->k)) {
		if (op->to != s->me)
			chunk_put(op, ddp__shm_in(s, s->me, s->step + 1),
				  op->send + c.at, c.len);
		return op->recv || is_chunk(op, op->k + 1) ? DDP__POST
							   : DDP__LAST;
	}
	if (op->recv && op->recv + own != op->send)
		chunk_give(op, op->recv + own, op->send, op->count);
	return 0;
}

void ddp__shm_gather(void *op, void *shm, const struct ddp__call *call,
		     const void *send, size_t size, void *recv,
		     const int *place, int to)
{
	struct ddp__shm *s = shm;

	*(struct ddp__shm_op *)op = (struct ddp__shm_op){
		.s = s,
		.call = call,
		.work = gather_work,
		.send = send,
		.recv = to == DDP__ALL || to == s->me ? recv : NULL,
		.place = place,
		.count = size,
		.elem = 1,
		.each = chunk_elems(size, s->chunk, 1),
		.stream = size * (size_t)s->n >= DDP__STREAM_MIN,
		.to = to};
}

static int barrier_work(struct ddp__shm_op *op)
{
	return op->k == 0;
}

void ddp__shm_barrier(void *op, void *shm, const struct ddp__call *call)
{
	struct ddp__shm *s = shm;

	*(struct ddp__shm_op *)op = (struct ddp__shm_op){
		.s = s, .call = call, .work = barrier_work};
}

/* A small broadcast. 1: done; 0: not yet; < 0: the error. */
static int op_through_cell(struct ddp__shm_op *op, int wait, struct err *e)
{
	struct ddp__shm *s = op->s;
	int rc;

	if (op->state == DONE)
		return 1;
	if (op->to == s->me) {
		op->state = DONE;
		ddp__shm_cell_give(s, op->call, op->send, op->count);
		if (op->recv != op->send)
			ddp__move(op->recv, op->send + op->skip, op->size_out);
		return 1;
	}
	rc = wait ? ddp__shm_cell_wait(s, op->call, op->to, e)
		  : ddp__shm_cell_arrived(s, op->call, op->to, e);
	if (rc < 0 || (!rc && !wait))
		return rc;
	op->state = DONE;
	ddp__copy_plain(op->recv, ddp__shm_cell(s, op->to)->data + op->skip,
			op->size_out);
	return 1;
}

/* ---- advancing */

/* 1 if the operation goes through a cell; decided when it begins. */
static int op_has_cell(struct ddp__shm_op *op)
{
	if (op->state == FRESH) {
		op->small = ddp__shm_cell_begin(op->s, op->call);
		op->state = op->small ? WAITING : FRESH;
	}
	return op->small;
}

/* The ranks have posted what op_awaits: 0, or the error of ranks that passed
 * different counts. */
static int op_check(const struct ddp__shm_op *op, struct err *e)
{
	if (op->state != WAITING || op->k != 1 || !op->check ||
	    !op->check(op, e))
		return 0;
	return ddp__shm_fail(op->s, e);
}

/* Works and posts; 0: the operation is done. */
static int op_continue(struct ddp__shm_op *op)
{
	struct ddp__shm *s = op->s;
	int what;

	if (op->state == FRESH)
		ddp__shm_begin(s, op->call);
	what = op->state == DONE ? DDP__NOTHING : op->work(op);
	if (what != DDP__NOTHING) {
		ddp__shm_post(s);
		op->k++;
	}
	if (what == DDP__LAST) {
		s->waits = 0;
		s->awaits = op->k == 1 ? DDP__SHM_FIRST : DDP__SHM_LATER;
	}
	if (what != DDP__POST && op->stream)
		ddp__copy_done();
	op->state = what == DDP__POST ? WAITING : DONE;
	return what == DDP__POST;
}

/* The kind of step to wait for before the operation continues; 0: none. */
static int op_awaits(const struct ddp__shm_op *op)
{
	if (op->state == WAITING)
		return op->k == 1 ? DDP__SHM_FIRST : DDP__SHM_LATER;
	return op->state == FRESH ? op->s->awaits : 0;
}

int ddp__shm_advance(void *operation, struct err *e)
{
	struct ddp__shm_op *op = operation;

	if (op->small && op_has_cell(op))
		return op_through_cell(op, 0, e);
	do {
		int what = op_awaits(op), rc;

		if (what) {
			op->s->waits = 1;
			rc = ddp__shm_arrived(op->s, what == DDP__SHM_FIRST, e);
			if (rc <= 0)
				return rc;
			op->s->awaits = 0;
			rc = op_check(op, e);
			if (rc)
				return rc;
		}
	} while (op_continue(op));
	return 1;
}

int ddp__shm_run(void *operation, struct err *e)
{
	struct ddp__shm_op *op = operation;
	int rc = 0;

	if (op->small && op_has_cell(op)) {
		rc = op_through_cell(op, 1, e);
		return rc < 0 ? rc : 0;
	}
	do {
		int what = op_awaits(op);

		if (what) {
			rc = what == DDP__SHM_FIRST
				     ? ddp__shm_wait_first(op->s, e)
				     : ddp__shm_wait(op->s, e);
			op->s->awaits = 0;
			rc = rc ? rc : op_check(op, e);
		}
	} while (!rc && op_continue(op));
	return rc;
}

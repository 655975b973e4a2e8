/* cpu_op.c: the two lanes of an operation, local and remote, and how it
 * advances along them. */
#include "worker-sdk/comm/cpu_op.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/comm/cpu.h"
#include "worker-sdk/core/call.h"

/* Smaller segments cost more turns, larger ones overlap less. Chosen, not
 * measured against other sizes. */
enum { SEGMENT = 4 << 20 };

static struct ddp__cpu *op_cpu(const struct ddp__cpu_op *op)
{
	return op->c->state;
}

/* Cuts the operation into segments, the same on all ranks. */
static void op_cut(struct ddp__cpu_op *op)
{
	size_t count = op->call->count, elem = ddp_type_size(op->call->type);

	op->segments = 1;
	op->each = count;
	if (op->stages->counts)
		op->segments = 2;
	if (!op->stages->cuts || op->size <= SEGMENT)
		return;
	op->each = SEGMENT / elem;
	op->segments = (count + op->each - 1) / op->each;
}

void ddp__cpu_op_init(struct ddp__cpu_op *op, struct ddp_comm *c,
		      const struct ddp__call *call, const void *send,
		      void *recv)
{
	/* local is prepared as a whole; remote is not used within a host */
	memset(op, 0, offsetof(struct ddp__cpu_op, local));
	op->remote.moved = 0;
	op->c = c;
	op->call = call;
	op->send = send;
	op->recv = recv;
	op->size = ddp__call_bytes(call);
	if (c->topology.nhosts <= 1)
		return;
	memset(&op->remote, 0, sizeof(op->remote));
	op->stages = ddp__stages(call->kind);
	op_cut(op);
}

void ddp__cpu_op_release(struct ddp__cpu_op *op)
{
	if (!op->stages)
		return;
	ddp__schedule_release(&op->remote);
	free(op->work);
	free(op->all);
	free(op->third);
	free(op->begin);
	if (op->stages->release)
		op->stages->release(op);
	op->work = op->all = op->third = NULL;
	op->begin = NULL;
}

int ddp__cpu_op_moved(struct ddp__cpu_op *op)
{
	const struct ddp__path *p = &op_cpu(op)->local;
	uint64_t now = p->transport->native.moved(p->collectives) +
		       (op->turn << 32) + op->carried;
	int moved = now != op->moves || op->remote.moved;

	op->moves = now;
	op->remote.moved = 0;
	return moved;
}

int ddp__cpu_op_awaits_local(const struct ddp__cpu_op *op)
{
	return !op->stages || op->local_busy;
}

int ddp__cpu_op_awaits_remote(const struct ddp__cpu_op *op)
{
	return op->remote_busy;
}

int ddp__cpu_op_check(struct ddp__cpu_op *op, uint64_t waited_ns, struct err *e)
{
	const struct ddp__path *l = &op_cpu(op)->local;
	const struct ddp__path *r = &op_cpu(op)->remote;
	int rc = 0;

	if (ddp__cpu_op_awaits_local(op))
		rc = l->transport->native.check(l->collectives, waited_ns, e);
	if (!rc && op->remote_busy)
		rc = r->transport->step.check(r->collectives, waited_ns, e);
	return rc;
}

const struct ddp__call *ddp__cpu_op_awaited(const struct ddp__cpu_op *op,
					    int *from)
{
	const struct ddp__path *l = &op_cpu(op)->local;

	if (ddp__cpu_op_awaits_local(op))
		return l->transport->native.awaited(l->collectives, from);
	*from = DDP__FROM_OTHERS;
	return op->remote_busy ? op->call : NULL;
}

/* ---- the local lane */

static int op_local_advance(struct ddp__cpu_op *op, struct err *e)
{
	return op_cpu(op)->local.transport->native.advance(&op->local, e);
}

static int op_local_wait(struct ddp__cpu_op *op, struct err *e)
{
	return op_cpu(op)->local.transport->native.wait(&op->local, e);
}

static void op_local_set_away(const struct ddp__cpu_op *op, int is_away)
{
	const struct ddp__path *p = &op_cpu(op)->local;

	p->transport->native.set_away(p->collectives, is_away);
}

/* The segment of a turn; *out: its last stage. */
static size_t op_segment(const struct ddp__cpu_op *op, size_t turn, int *out)
{
	if (turn == 0 || turn == 2 * op->segments - 1) {
		*out = turn > 0;
		return *out ? op->segments - 1 : 0;
	}
	*out = turn % 2 == 0;
	return *out ? turn / 2 - 1 : turn / 2 + 1;
}

/* Segments that have passed their first stage. */
static size_t op_gathered(const struct ddp__cpu_op *op)
{
	size_t in = op->turn / 2 + 1;

	if (op->turn == 0)
		return 0;
	return in < op->segments ? in : op->segments;
}

/* Prepares this turn. 1: it is under way; 0: it has to wait for the remote
 * lane; 2: this rank has nothing to do in it. */
static int op_begin_turn(struct ddp__cpu_op *op, struct err *e)
{
	int out, rc;
	size_t k = op_segment(op, op->turn, &out);

	if (out && ddp__is_leading(op->c) && op->carried <= k)
		return 0;
	rc = out ? op->stages->out(op, k, e) : op->stages->in(op, k, e);
	return rc ? rc : 2;
}

/* Advances the lane as far as possible. wait: blocks in the local transport, if
 * there is nothing else to do. */
static int op_local_move(struct ddp__cpu_op *op, int wait, struct err *e)
{
	while (op->turn < 2 * op->segments) {
		int rc = op->local_busy ? 1 : op_begin_turn(op, e);

		if (rc <= 0)
			return rc;
		if (rc == 1) {
			op->local_busy = 1;
			rc = wait ? op_local_wait(op, e)
				  : op_local_advance(op, e);
			if (rc < 0 || (!rc && !wait))
				return rc;
			op->local_busy = 0;
		}
		op->turn++;
		/* first give the remote lane its next segment */
		if (ddp__is_leading(op->c) && !op->remote_busy &&
		    op->carried < op_gathered(op))
			return 0;
	}
	return 0;
}

/* ---- the remote lane, on leaders */

static int op_remote_move(struct ddp__cpu_op *op, int wait, struct err *e)
{
	while (op->carried < op_gathered(op)) {
		int rc = 0;

		if (!op->remote_busy)
			rc = op->stages->between(op, op->carried, e);
		if (rc < 0)
			return rc;
		op->remote_busy = 1;
		op_local_set_away(op, 1);
		rc = wait ? ddp__schedule_run(&op->remote, e)
			  : ddp__schedule_advance(&op->remote, e);
		if (rc < 0 || (!rc && !wait))
			return rc;
		ddp__schedule_release(&op->remote);
		op->remote_busy = 0;
		op_local_set_away(op, 0);
		op->carried++;
	}
	return 0;
}

static int op_finish(struct ddp__cpu_op *op)
{
	if (op->turn < 2 * op->segments)
		return 0;
	if (op->stages->end)
		op->stages->end(op);
	return 1;
}

static void op_prepare_local_v(struct ddp__cpu_op *op)
{
	const struct ddp__call *call = op->call;
	const struct ddp__counts *v = call->counts;
	const struct ddp__path *p = &op_cpu(op)->local;
	size_t elem = v->compare_only ? 0 : ddp_type_size(call->type);

	if (call->kind == DDP__ALL_TO_ALL_V)
		p->transport->native.all_to_all_v(&op->local, p->collectives,
						  call, elem, op->send, v->send,
						  op->recv, v->recv);
	else if (call->kind == DDP__REDUCE_SCATTER_V && elem)
		p->transport->native.reduce_scatter_v(
			&op->local, p->collectives, call, v, op->send, op->recv,
			op->c->size);
	else
		p->transport->native.all_gather_v(&op->local, p->collectives,
						  call, v, elem, op->send,
						  op->recv, NULL);
}

/* For a communicator whose ranks are all on one host. */
static void op_prepare_local(struct ddp__cpu_op *op)
{
	const struct ddp__call *call = op->call;
	const struct ddp__path *p = &op_cpu(op)->local;
	void *s = p->collectives;
	size_t count = call->count, size = op->size;
	int world = op->c->size, root = call->root, mine = op->c->rank == root;

	switch (call->kind) {
	case DDP__ALL_REDUCE:
	case DDP__SHOULD_STOP:
		p->transport->native.reduce(&op->local, s, call, op->send,
					    op->recv, count, DDP__ALL, world);
		return;
	case DDP__REDUCE:
		p->transport->native.reduce(&op->local, s, call, op->send,
					    op->recv, count, root, world);
		return;
	case DDP__BROADCAST:
		p->transport->native.broadcast(&op->local, s, call, root,
					       op->send, size, op->recv, 0,
					       mine ? 0 : size);
		return;
	case DDP__GATHER:
		p->transport->native.gather(&op->local, s, call, op->send, size,
					    op->recv, NULL, root);
		return;
	case DDP__SCATTER:
		p->transport->native.scatter(&op->local, s, call, root,
					     op->send, size, op->recv, NULL);
		return;
	case DDP__REDUCE_SCATTER:
		p->transport->native.reduce_scatter(
			&op->local, s, call, op->send, op->recv, count, world);
		return;
	case DDP__ALL_TO_ALL:
		p->transport->native.all_to_all(&op->local, s, call, op->send,
						size, op->recv, NULL);
		return;
	case DDP__BARRIER:
		p->transport->native.barrier(&op->local, s, call);
		return;
	case DDP__ALL_GATHER_V:
	case DDP__REDUCE_SCATTER_V:
	case DDP__ALL_TO_ALL_V:
		op_prepare_local_v(op);
		return;
	default: /* all_gather; a world and a group are made by gathering */
		p->transport->native.gather(&op->local, s, call, op->send, size,
					    op->recv, NULL, DDP__ALL);
	}
}

static int op_start(struct ddp__cpu_op *op, struct err *e)
{
	if (op->started)
		return 0;
	op->started = 1;
	if (op->stages)
		return op->stages->start ? op->stages->start(op, e) : 0;
	op_prepare_local(op);
	op->local_busy = 1;
	return 0;
}

int ddp__cpu_op_advance(struct ddp__cpu_op *op, struct err *e)
{
	int leading = ddp__is_leading(op->c), rc = op_start(op, e);
	size_t turn, carried;

	if (rc)
		return rc;
	if (!op->stages)
		return op_local_advance(op, e);
	do {
		turn = op->turn;
		carried = op->carried;
		rc = op_local_move(op, 0, e);
		if (!rc && leading)
			rc = op_remote_move(op, 0, e);
		if (rc)
			return rc;
	} while (op->turn != turn || op->carried != carried);
	return op_finish(op);
}

/* Runs an operation of several stages to its end. */
static int op_run_stages(struct ddp__cpu_op *op, struct err *e)
{
	int leading = ddp__is_leading(op->c), rc = 0;

	while (!rc && op->turn < 2 * op->segments) {
		rc = op_local_move(op, 1, e);
		if (!rc && leading)
			rc = op_remote_move(op, 1, e);
	}
	return rc ? rc : op_finish(op);
}

int ddp__cpu_op_run(struct ddp__cpu_op *op, struct err *e)
{
	int rc;

	if (op->stages && op->stages->cuts && op->segments > 1 &&
	    ddp__is_leading(op->c))
		return 0;
	rc = op_start(op, e);
	if (!rc)
		rc = op->stages ? op_run_stages(op, e) : op_local_wait(op, e);
	ddp__cpu_op_release(op);
	return rc < 0 ? rc : 1;
}

/* collective.c: the public collectives: arguments are checked here, and a
 * world of one is served here; the rest is the backend's. */
#include <string.h>

#include "worker-sdk/comm.h"
#include "worker-sdk/last_error.h"
#include "worker-sdk/reduce.h"

static int check(const ddp_comm *c, struct ddp__call *call, const void *a,
		 const void *b, struct err *e)
{
	char text[DDP__CALL_TEXT];

	if (!c)
		return err_set(e, ERR_ARGUMENT, "the communicator is NULL");
	call->number = c->calls + 1; /* what it would be; for the texts */
	ddp__call_text(call, text);
	if ((unsigned)call->type >= DDP_TYPES)
		return err_set(e, ERR_ARGUMENT, "%s: unknown type %d", text,
			       (int)call->type);
	if ((unsigned)call->op >= DDP_OPS)
		return err_set(e, ERR_ARGUMENT, "%s: unknown operation %d",
			       text, (int)call->op);
	if (call->count > DDP__COUNT_MAX / (size_t)c->size)
		return err_set(e, ERR_ARGUMENT,
			       "%s: too many elements: at most %zu on %d ranks",
			       text, DDP__COUNT_MAX / (size_t)c->size,
			       c->size);
	if (call->root < 0 || call->root >= c->size)
		return err_set(e, ERR_ARGUMENT,
			       "%s: there is no such root in a world of %d",
			       text, c->size);
	if (call->count && (!a || !b))
		return err_set(e, ERR_ARGUMENT, "%s: a buffer is NULL", text);
	return 0;
}

/* An overlap that is not the one in place that ddp.h allows gives garbage. */
static int check_overlap(const struct ddp__call *call, int in_place,
			 const void *send, size_t send_size, const void *recv,
			 size_t recv_size, struct err *e)
{
	uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
	char text[DDP__CALL_TEXT];

	if (in_place || !send_size || s + send_size <= r || r + recv_size <= s)
		return 0;
	return err_set(e, ERR_ARGUMENT,
		       "%s: send and recv overlap, and not in the one way that "
		       "is legal", ddp__call_text(call, text));
}

/* Numbers the call, unless an earlier one broke the communicator. */
static int enter(ddp_comm *c, struct ddp__call *call, struct err *e)
{
	if (c->broken.code) {
		*e = c->broken;
		return e->code;
	}
	call->number = ++c->calls;
	c->ticket = flight_begin(c->world->flight, c->id, call->number,
				 ddp__call_pack(call));
	if (!c->state) /* nobody is waited for */
		flight_end(c->world->flight, c->ticket, 0);
	return 0;
}

static int leave(ddp_comm *c, int rc, struct err *e)
{
	flight_end(c->world->flight, c->ticket, rc);
	if (rc)
		c->broken = *e;
	return rc;
}

static void copy(void *to, const void *from, size_t size)
{
	if (size && to != from)
		memmove(to, from, size);
}

int ddp_all_reduce(ddp_comm *c, const void *send, void *recv, size_t count,
		   enum ddp_type type, enum ddp_op op)
{
	struct ddp__call call = {DDP__ALL_REDUCE, type, op, 0, count, 0};
	struct err *e = ddp__last_error();
	size_t size = count * ddp_type_size(type);
	int rc = check(c, &call, send, recv, e);

	if (!rc)
		rc = check_overlap(&call, send == recv, send, size, recv, size,
				   e);
	if (!rc)
		rc = enter(c, &call, e);
	if (rc)
		return rc;
	if (c->state)
		return leave(c, c->backend->run(c, &call, send, recv, e), e);
	copy(recv, send, size);
	return 0;
}

int ddp_broadcast(ddp_comm *c, void *buf, size_t count, enum ddp_type type,
		  int root)
{
	struct ddp__call call = {DDP__BROADCAST, type, DDP_SUM, root, count, 0};
	struct err *e = ddp__last_error();
	int rc = check(c, &call, buf, buf, e);

	if (!rc)
		rc = enter(c, &call, e);
	if (rc || !c->state)
		return rc;
	return leave(c, c->backend->run(c, &call, buf, buf, e), e);
}

int ddp_all_gather(ddp_comm *c, const void *send, void *recv, size_t count,
		   enum ddp_type type)
{
	struct ddp__call call = {DDP__ALL_GATHER, type, DDP_SUM, 0, count, 0};
	struct err *e = ddp__last_error();
	size_t size = count * ddp_type_size(type);
	int rc = check(c, &call, send, recv, e);

	if (!rc)
		rc = check_overlap(&call,
				   send == (char *)recv +
						   (size_t)c->rank * size,
				   send, size, recv,
				   size * (size_t)c->size, e);
	if (!rc)
		rc = enter(c, &call, e);
	if (rc)
		return rc;
	if (c->state)
		return leave(c, c->backend->run(c, &call, send, recv, e), e);
	copy(recv, send, size);
	return 0;
}

int ddp_reduce_scatter(ddp_comm *c, const void *send, void *recv, size_t count,
		       enum ddp_type type, enum ddp_op op)
{
	struct ddp__call call = {DDP__REDUCE_SCATTER, type, op, 0, count, 0};
	struct err *e = ddp__last_error();
	size_t size = count * ddp_type_size(type);
	int rc = check(c, &call, send, recv, e);

	if (!rc)
		rc = check_overlap(&call,
				   recv == (const char *)send +
						   (size_t)c->rank * size,
				   send, size * (size_t)c->size, recv,
				   size, e);
	if (!rc)
		rc = enter(c, &call, e);
	if (rc)
		return rc;
	if (c->state)
		return leave(c, c->backend->run(c, &call, send, recv, e), e);
	copy(recv, send, size);
	return 0;
}

int ddp_barrier(ddp_comm *c)
{
	struct ddp__call call = {.kind = DDP__BARRIER};
	struct err *e = ddp__last_error();
	int rc = check(c, &call, NULL, NULL, e);

	if (!rc)
		rc = enter(c, &call, e);
	if (rc || !c->state)
		return rc;
	return leave(c, c->backend->run(c, &call, NULL, NULL, e), e);
}

/* collective.c: the public collectives. Checks arguments and serves
 * communicators of one rank; the backend serves all others. */
#include "worker-sdk/comm/collective.h"

#include <stdarg.h>
#include <stdio.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/cpu_fastpath.h"
#include "worker-sdk/comm/request.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/math/copy.h"

ddp_request *ddp__blocking;

/* Cold: keeps error texts out of the path of valid calls. */
int ddp__refuse_use(const struct ddp__call *call, struct err *e,
		    const char *fmt, ...)
{
	char text[DDP__CALL_TEXT], why[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	return err_set(e, ERR_ARGUMENT, "%s: %s", ddp__call_text(call, text),
		       why);
}

int ddp__check_use(const struct ddp_comm *c, const struct ddp__use *u,
		   size_t parts, struct err *e)
{
	const struct ddp__call *call = &u->call;
	size_t most = DDP__COUNT_MAX / (parts ? parts : 1);

	if ((unsigned)call->type >= DDP_TYPES)
		return ddp__refuse_use(call, e, "unknown type %d",
				       (int)call->type);
	/* a negative count is a very large one here */
	if (call->count > most)
		return ddp__refuse_use(call, e,
				       "too many elements: at most %zu on %d "
				       "ranks",
				       most, c->size);
	if (call->count &&
	    ((u->send_parts && !u->send) || (u->recv_parts && !u->recv)))
		return ddp__refuse_use(call, e, "a buffer is NULL");
	return 0;
}

static int collective_is_float(enum ddp_type type)
{
	return type == DDP_F32 || type == DDP_F64 || type == DDP_F16 ||
	       type == DDP_BF16;
}

int ddp__check_op(const struct ddp__call *call, struct err *e)
{
	if ((unsigned)call->op >= DDP_OPS)
		return ddp__refuse_use(call, e, "unknown operation %d",
				       (int)call->op);
	if ((call->op == DDP_BAND || call->op == DDP_BOR) &&
	    collective_is_float(call->type))
		return ddp__refuse_use(call, e,
				       "bitwise operations need integers");
	return 0;
}

/* Buffers may overlap only in the way that ddp.h calls in place: each rank's
 * own block at the same address. */
static int collective_check_overlap(const struct ddp_comm *c,
				    const struct ddp__use *u, struct err *e)
{
	size_t size = ddp__call_bytes(&u->call);
	size_t shift = (size_t)c->rank * size;
	uintptr_t s = (uintptr_t)u->send, r = (uintptr_t)u->recv;
	size_t s_size = size * u->send_parts, r_size = size * u->recv_parts;

	if (!s_size || !r_size || s + s_size <= r || r + r_size <= s)
		return 0;
	if (s + (u->send_parts < u->recv_parts ? 0 : shift) ==
	    r + (u->recv_parts < u->send_parts ? 0 : shift))
		return 0;
	return ddp__refuse_use(
		&u->call, e,
		"send and recv overlap in a way that ddp.h does not allow");
}

static int collective_check(const struct ddp_comm *c, const struct ddp__use *u,
			    struct err *e)
{
	int rc;

	if (u->call.counts)
		return ddp__check_v(c, u, e);
	rc = ddp__check_use(c, u, (size_t)c->size, e);
	if (!rc)
		rc = ddp__check_op(&u->call, e);
	if (!rc && (u->call.root < 0 || u->call.root >= c->size))
		rc = ddp__refuse_use(&u->call, e,
				     "there is no such root in a %s of %d",
				     c->name[0] ? "group" : "world", c->size);
	return rc ? rc : collective_check_overlap(c, u, e);
}

/* In a communicator of one, the result is the input. */
static void collective_copy_to_self(const struct ddp__use *u)
{
	const struct ddp__counts *v = u->call.counts;
	size_t size = v ? v->recv[1] * ddp_type_size(u->call.type)
			: ddp__call_bytes(&u->call);

	if (size && u->recv && u->send && u->recv != u->send)
		ddp__move(u->recv, u->send, size);
}

static int collective_begin(struct ddp_comm *c, struct ddp__use *u,
			    ddp_request **request, struct err *e)
{
	struct ddp_request *r = ddp__request_new(c, &u->call, u->send, u->recv);
	int rc;

	if (!r)
		return err_no_memory(e, "a request");
	rc = ddp__enter(c, &r->call, e);
	if (!rc && c->state) {
		rc = c->backend->begin(r, e);
		if (rc)
			rc = ddp__leave(c, &r->call, rc, e);
	} else if (!rc) {
		collective_copy_to_self(u);
		r->ended = 1;
		ddp__leave(c, &r->call, 0, e);
	}
	if (rc)
		ddp__request_free(r);
	else
		*request = r;
	return rc;
}

int ddp__run_or_begin(struct ddp_comm *c, struct ddp__use *u,
		      ddp_request **request, struct err *e)
{
	int rc;

	if (request != &ddp__blocking)
		return collective_begin(c, u, request, e);
	rc = ddp__enter(c, &u->call, e);
	if (rc)
		return rc;
	if (c->state)
		rc = c->backend->run(c, &u->call, u->send, u->recv, e);
	else
		collective_copy_to_self(u);
	return ddp__leave_blocking(c, &u->call, rc, e);
}

int ddp__route(struct ddp_comm **c, const struct ddp__use *u, struct err *e)
{
	return (*c)->backend->home(c, &u->call,
				   u->send_parts ? u->send : NULL,
				   u->recv_parts ? u->recv : NULL, e);
}

static inline void collective_name(const struct ddp_comm *c,
				   struct ddp__call *call)
{
	call->number = c->calls + 1;
	call->group = c->name[0] ? c->name : NULL;
}

/* 1: the fast path ran the call, and *rc is its result. */
static inline int collective_try_fastpath(struct ddp_comm *c,
					  struct ddp__use *u, int *rc,
					  struct err *e)
{
	size_t size = ddp__fastpath_size(c, u);

	if (size == DDP__NO_FASTPATH)
		return 0;
	collective_name(c, &u->call);
	*rc = ddp__cpu_fastpath(c, &u->call, size, u->send, u->recv, e);
	if (*rc <= 0)
		return 1;
	*rc = 0;
	return 0;
}

int ddp__collective(struct ddp_comm *c, struct ddp__use *u,
		    ddp_request **request)
{
	struct err *e = ddp__last_error();
	int rc = ddp__acquire(c, &u->call, e);

	if (rc)
		return rc;
	if (c->has_fastpath && request == &ddp__blocking &&
	    collective_try_fastpath(c, u, &rc, e)) {
		ddp__release(c);
		return rc;
	}
	if (c->backend->home)
		rc = ddp__route(&c, u, e);
	collective_name(c, &u->call);
	if (!rc && !request)
		rc = ddp__refuse_use(&u->call, e, "request is NULL");
	if (!rc)
		rc = collective_check(c, u, e);
	if (!rc)
		rc = ddp__run_or_begin(c, u, request, e);
	ddp__release(c);
	return rc;
}

static size_t collective_comm_size(const ddp_comm *c)
{
	return c && c->magic == DDP__ALIVE ? (size_t)c->size : 1;
}

static int collective_is_rank(const ddp_comm *c, int root)
{
	return c && c->magic == DDP__ALIVE && c->rank == root;
}

int ddp_all_reduce_async(ddp_comm *c, const void *send, void *recv,
			 size_t count, enum ddp_type type, enum ddp_op op,
			 ddp_request **request)
{
	struct ddp__use u = {{DDP__ALL_REDUCE, type, op, 0, count, 0, NULL},
			     send, recv, 1, 1};

	return ddp__collective(c, &u, request);
}

int ddp_all_reduce(ddp_comm *c, const void *send, void *recv, size_t count,
		   enum ddp_type type, enum ddp_op op)
{
	return ddp_all_reduce_async(c, send, recv, count, type, op,
				    &ddp__blocking);
}

int ddp_reduce_async(ddp_comm *c, const void *send, void *recv, size_t count,
		     enum ddp_type type, enum ddp_op op, int root,
		     ddp_request **request)
{
	int mine = collective_is_rank(c, root);
	struct ddp__use u = {{DDP__REDUCE, type, op, root, count, 0, NULL},
			     send, mine ? recv : NULL, 1, (size_t)mine};

	return ddp__collective(c, &u, request);
}

int ddp_reduce(ddp_comm *c, const void *send, void *recv, size_t count,
	       enum ddp_type type, enum ddp_op op, int root)
{
	return ddp_reduce_async(c, send, recv, count, type, op, root,
				&ddp__blocking);
}

int ddp_broadcast_async(ddp_comm *c, void *buf, size_t count,
			enum ddp_type type, int root, ddp_request **request)
{
	struct ddp__use u = {
		{DDP__BROADCAST, type, DDP_SUM, root, count, 0, NULL},
		buf, buf, 1, 1};

	return ddp__collective(c, &u, request);
}

int ddp_broadcast(ddp_comm *c, void *buf, size_t count, enum ddp_type type,
		  int root)
{
	return ddp_broadcast_async(c, buf, count, type, root, &ddp__blocking);
}

int ddp_all_gather_async(ddp_comm *c, const void *send, void *recv,
			 size_t count, enum ddp_type type,
			 ddp_request **request)
{
	struct ddp__use u = {
		{DDP__ALL_GATHER, type, DDP_SUM, 0, count, 0, NULL},
		send,
		recv,
		1,
		collective_comm_size(c)};

	return ddp__collective(c, &u, request);
}

int ddp_all_gather(ddp_comm *c, const void *send, void *recv, size_t count,
		   enum ddp_type type)
{
	return ddp_all_gather_async(c, send, recv, count, type,
				    &ddp__blocking);
}

int ddp_gather_async(ddp_comm *c, const void *send, void *recv, size_t count,
		     enum ddp_type type, int root, ddp_request **request)
{
	int mine = collective_is_rank(c, root);
	struct ddp__use u = {{DDP__GATHER, type, DDP_SUM, root, count, 0, NULL},
			     send,
			     mine ? recv : NULL,
			     1,
			     mine ? collective_comm_size(c) : 0};

	return ddp__collective(c, &u, request);
}

int ddp_gather(ddp_comm *c, const void *send, void *recv, size_t count,
	       enum ddp_type type, int root)
{
	return ddp_gather_async(c, send, recv, count, type, root,
				&ddp__blocking);
}

int ddp_scatter_async(ddp_comm *c, const void *send, void *recv, size_t count,
		      enum ddp_type type, int root, ddp_request **request)
{
	int mine = collective_is_rank(c, root);
	struct ddp__use u = {
		{DDP__SCATTER, type, DDP_SUM, root, count, 0, NULL},
		mine ? send : NULL,
		recv,
		mine ? collective_comm_size(c) : 0,
		1};

	return ddp__collective(c, &u, request);
}

int ddp_scatter(ddp_comm *c, const void *send, void *recv, size_t count,
		enum ddp_type type, int root)
{
	return ddp_scatter_async(c, send, recv, count, type, root,
				 &ddp__blocking);
}

int ddp_reduce_scatter_async(ddp_comm *c, const void *send, void *recv,
			     size_t count, enum ddp_type type, enum ddp_op op,
			     ddp_request **request)
{
	struct ddp__use u = {{DDP__REDUCE_SCATTER, type, op, 0, count, 0, NULL},
			     send,
			     recv,
			     collective_comm_size(c),
			     1};

	return ddp__collective(c, &u, request);
}

int ddp_reduce_scatter(ddp_comm *c, const void *send, void *recv, size_t count,
		       enum ddp_type type, enum ddp_op op)
{
	return ddp_reduce_scatter_async(c, send, recv, count, type, op,
					&ddp__blocking);
}

int ddp_all_to_all_async(ddp_comm *c, const void *send, void *recv,
			 size_t count, enum ddp_type type,
			 ddp_request **request)
{
	struct ddp__use u = {
		{DDP__ALL_TO_ALL, type, DDP_SUM, 0, count, 0, NULL},
		send,
		recv,
		collective_comm_size(c),
		collective_comm_size(c)};

	return ddp__collective(c, &u, request);
}

int ddp_all_to_all(ddp_comm *c, const void *send, void *recv, size_t count,
		   enum ddp_type type)
{
	return ddp_all_to_all_async(c, send, recv, count, type,
				    &ddp__blocking);
}

int ddp_barrier_async(ddp_comm *c, ddp_request **request)
{
	struct ddp__use u;

	/* As an initializer, gcc makes this "rep stos", which takes 12 ns. */
	u.call.kind = DDP__BARRIER;
	u.call.type = DDP_F32;
	u.call.op = DDP_SUM;
	u.call.root = 0;
	u.call.count = 0;
	u.call.number = u.call.ticket = 0;
	u.call.group = NULL;
	u.call.counts = NULL;
	u.send = u.recv = NULL;
	u.send_parts = u.recv_parts = 0;
	return ddp__collective(c, &u, request);
}

int ddp_barrier(ddp_comm *c)
{
	return ddp_barrier_async(c, &ddp__blocking);
}

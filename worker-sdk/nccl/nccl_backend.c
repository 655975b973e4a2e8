/* nccl_backend.c: the backend for GPU memory: turns calls into NCCL calls,
 * enqueues them in streams, and waits for them. */
#include "worker-sdk/nccl/nccl_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/comm/request.h"

enum { ENLIST_MIN = 1 << 20 };

/* After any error NCCL's kernels may spin for ever, so the communicator is
 * aborted. */
static int nccl_fail_comm(struct ddp__nccl *n, int rc, struct err *e)
{
	size_t len = strlen(e->text);

	if (rc >= 0)
		return rc;
	if (!n->dead && ddp__nccl_abort_crashes(n->lib->version))
		snprintf(e->text + len, sizeof(e->text) - len,
			 " (NCCL %d crashes in ncclCommAbort: its communicator "
			 "is left as it is until this process ends)",
			 n->lib->version);
	ddp__nccl_abort(n->c, e);
	return rc;
}

int ddp__nccl_device(struct ddp__nccl *n)
{
	int before = n->device;

	n->cuda->get_device(&before);
	if (before != n->device)
		n->cuda->set_device(n->device);
	return before;
}

static void nccl_restore_device(struct ddp__nccl *n, int before)
{
	if (before != n->device)
		n->cuda->set_device(before);
}

int ddp__nccl_event(struct ddp__nccl *n, void **event, struct err *e)
{
	if (n->spares) {
		*event = n->spare[--n->spares];
		return 0;
	}
	return ddp__cuda_check(n->cuda,
			       n->cuda->event_create(event,
						     DDP__CUDA_NO_TIMING),
			       "cudaEventCreateWithFlags", e);
}

static void ddp__nccl_spare(struct ddp__nccl *n, void *event)
{
	if (!event)
		return;
	if (n->spares < DDP__NCCL_SPARE)
		n->spare[n->spares++] = event;
	else
		n->cuda->event_destroy(event);
}

/* Makes libddp's stream wait for the work now in the caller's stream or,
 * without one, in CUDA's default stream. */
static int nccl_follow_user(struct ddp__nccl *n, void *stream, struct err *e)
{
	int rc = n->cuda->event_record(n->fence, n->user);

	if (!rc)
		rc = n->cuda->stream_wait(stream, n->fence, 0);
	return ddp__cuda_check(n->cuda, rc, "cudaStreamWaitEvent", e);
}

/* ---- waiting */

static int nccl_is_message(const struct ddp__call *call)
{
	return call->kind == DDP__SEND || call->kind == DDP__RECV;
}

static int nccl_op_done(struct ddp__nccl *n, struct ddp__nccl_op *op,
			const char *what, struct err *e)
{
	int rc = ddp__nccl_push(n, e);

	if (rc)
		return rc;
	if (op->pair && !op->posted)
		return 0;
	return ddp__nccl_event_done(
		n, op->pair ? ddp__nccl_pair_comm(op->pair) : n->comm, op->done,
		what, e);
}

/* Waits until op is done; with a caller's stream, until op is enqueued and that
 * stream waits for it. 1, 0 after timeout_ms, or an error. */
static int nccl_op_wait(struct ddp__nccl *n, struct ddp__nccl_op *op,
			int timeout_ms, struct err *e)
{
	struct ddp__watch w;
	char text[DDP__CALL_TEXT];
	int rc;

	ddp__watch_init(&w, n->c, ddp__call_text(op->call, text));
	for (;;) {
		rc = nccl_op_done(n, op, text, e);
		if (rc)
			return rc;
		if (n->user && op->posted) {
			rc = n->cuda->stream_wait(n->user, op->done, 0);
			rc = ddp__cuda_check(n->cuda, rc, text, e);
			return rc ? rc : 1;
		}
		if (timeout_ms >= 0 &&
		    ddp__watch_ns(&w) / 1000000 >= (uint64_t)timeout_ms)
			return 0;
		rc = ddp__watch_pause(&w, e);
		if (rc)
			return rc;
	}
}

static void nccl_op_release(struct ddp__nccl *n, struct ddp__nccl_op *op)
{
	ddp__nccl_unpost(n, op);
	ddp__nccl_spare(n, op->ready);
	ddp__nccl_spare(n, op->done);
	op->ready = op->done = NULL;
}

/* ---- the table */

/* ERR_ARGUMENT for a blocking message to this rank itself whose other side has
 * not started. */
static int nccl_check_self(struct ddp__nccl *n, const struct ddp__nccl_op *op,
			   struct err *e)
{
	char text[DDP__CALL_TEXT];

	if (op->call->root != n->c->rank || op->posted)
		return 0;
	return err_set(
		e, ERR_ARGUMENT,
		"%s: rank %d is this rank itself, which would wait for ever: "
		"begin the send or the receive with its asynchronous form",
		ddp__call_text(op->call, text), n->c->rank);
}

static int nccl_run_message(struct ddp__nccl *n, const struct ddp__call *call,
			    void *buf, struct err *e)
{
	struct ddp__nccl_op op = {.call = call, .buf = buf};
	int rc;

	if (!call->count)
		return 0;
	rc = ddp__nccl_post(n, &op, e);
	if (!rc)
		rc = ddp__nccl_push(n, e);
	if (!rc)
		rc = nccl_check_self(n, &op, e);
	if (!rc)
		rc = nccl_op_wait(n, &op, -1, e);
	nccl_op_release(n, &op);
	return rc < 0 ? rc : 0;
}

static int nccl_run_collective(struct ddp__nccl *n,
			       const struct ddp__call *call, const void *send,
			       void *recv, struct err *e)
{
	struct ddp__nccl_op op = {.call = call, .done = n->finish, .posted = 1};
	int rc = ddp__nccl_compare_counts(n, call, e);

	if (rc)
		return rc;
	/* in the order of the caller's stream: it waits for the call, this
	 * thread does not */
	if (n->user)
		return ddp__nccl_enqueue(n, call, send, recv, n->user, e);
	rc = nccl_follow_user(n, n->stream, e);
	if (!rc)
		rc = ddp__nccl_enqueue(n, call, send, recv, n->stream, e);
	if (!rc)
		rc = ddp__cuda_check(n->cuda,
				     n->cuda->event_record(n->finish,
							   n->stream),
				     "cudaEventRecord", e);
	if (!rc)
		rc = nccl_op_wait(n, &op, -1, e);
	return rc < 0 ? rc : 0;
}

static int nccl_run(struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e)
{
	struct ddp__nccl *n = c->state;
	int before = ddp__nccl_device(n), rc;

	if (nccl_is_message(call))
		rc = nccl_run_message(
			n, call, call->kind == DDP__SEND ? (void *)send : recv,
			e);
	else
		rc = nccl_run_collective(n, call, send, recv, e);
	rc = nccl_fail_comm(n, rc, e);
	nccl_restore_device(n, before);
	return rc;
}

static int nccl_begin_collective(struct ddp__nccl *n, struct ddp_request *r,
				 struct ddp__nccl_op *op, struct err *e)
{
	int rc = ddp__nccl_compare_counts(n, &r->call, e);

	if (!rc)
		rc = ddp__nccl_event(n, &op->done, e);
	if (!rc)
		rc = nccl_follow_user(n, n->stream, e);
	if (!rc)
		rc = ddp__nccl_enqueue(n, &r->call, r->send, r->recv, n->stream,
				       e);
	if (!rc)
		rc = ddp__cuda_check(n->cuda,
				     n->cuda->event_record(op->done, n->stream),
				     "cudaEventRecord", e);
	op->posted = 1;
	return rc;
}

static int nccl_begin(struct ddp_request *r, struct err *e)
{
	struct ddp__nccl *n = r->comm->state;
	struct ddp__nccl_op *op = (struct ddp__nccl_op *)r->op;
	int before = ddp__nccl_device(n), rc;

	op->call = &r->call;
	op->buf = r->call.kind == DDP__SEND ? (void *)r->send : r->recv;
	if (!nccl_is_message(&r->call)) {
		rc = nccl_begin_collective(n, r, op, e);
	} else if (!r->call.count) {
		op->posted = 1;
		rc = 0;
	} else {
		rc = ddp__nccl_post(n, op, e);
		if (!rc)
			rc = ddp__nccl_push(n, e);
	}
	rc = nccl_fail_comm(n, rc, e);
	nccl_restore_device(n, before);
	return rc;
}

/* The error of a request that ended because another call failed. */
static int nccl_ended_error(struct ddp__nccl *n, struct err *e)
{
	*e = n->c->broken;
	return e->code ? e->code
		       : err_set(e, ERR_ABORTED, "the communicator was ended");
}

static int nccl_wait(struct ddp_request *r, int timeout_ms, struct err *e)
{
	struct ddp__nccl *n = r->comm->state;
	struct ddp__nccl_op *op = (struct ddp__nccl_op *)r->op;
	int before, rc;

	if (op->posted && !op->done)
		return 1; /* there was nothing to do */
	if (n->dead)
		return nccl_ended_error(n, e);
	before = ddp__nccl_device(n);
	rc = nccl_fail_comm(n, nccl_op_wait(n, op, timeout_ms, e), e);
	nccl_restore_device(n, before);
	return rc;
}

static int nccl_test(struct ddp_request *r, struct err *e)
{
	struct ddp__nccl *n = r->comm->state;
	struct ddp__nccl_op *op = (struct ddp__nccl_op *)r->op;
	char text[DDP__CALL_TEXT];
	int before, rc;

	if (op->posted && !op->done)
		return 1;
	if (n->dead)
		return nccl_ended_error(n, e);
	before = ddp__nccl_device(n);
	rc = nccl_fail_comm(
		n, nccl_op_done(n, op, ddp__call_text(&r->call, text), e), e);
	nccl_restore_device(n, before);
	return rc;
}

static void nccl_release(struct ddp_request *r)
{
	nccl_op_release(r->comm->state, (struct ddp__nccl_op *)r->op);
}

static int nccl_gather(struct ddp_comm *c, const struct ddp__call *call,
		       const void *mine, void *all, size_t size, struct err *e)
{
	struct ddp__nccl *n = c->state;
	struct ddp__call gather = *call;

	if (!n->host->state) {
		memcpy(all, mine, size);
		return 0;
	}
	gather.number = ddp__nccl_host_number(n, call->number);
	return ddp__cpu.gather(n->host, &gather, mine, all, size, e);
}

/* Sets the timeout of calls through host memory; waits for a GPU use the
 * world's. */
static void nccl_set_timeout(struct ddp_comm *c, int timeout_ms)
{
	struct ddp__nccl *n = c->state;

	if (n->host->state)
		ddp__cpu.set_timeout(n->host, timeout_ms);
}

const struct ddp__backend ddp__nccl = {
	.name = "nccl",
	.serves_one = 1,
	.op_size = sizeof(struct ddp__nccl_op),
	.split = ddp__nccl_split,
	.stop = ddp__nccl_stop,
	.abort = ddp__nccl_abort,
	.run = nccl_run,
	.begin = nccl_begin,
	.test = nccl_test,
	.wait = nccl_wait,
	.release = nccl_release,
	.gather = nccl_gather,
	.set_timeout = nccl_set_timeout,
	.home = ddp__nccl_route,
};

/* ---- beside the table */

const struct ddp_comm *ddp__nccl_host_comm(const struct ddp_comm *c)
{
	const struct ddp__nccl *n = c->state;

	return c->backend == &ddp__nccl && n && n->host ? n->host : c;
}

int ddp__nccl_route(struct ddp_comm **c, const struct ddp__call *call,
		    const void *send, const void *recv, struct err *e)
{
	const struct ddp__nccl *n = (*c)->state;
	char text[DDP__CALL_TEXT];
	int s, r;

	if (!n || (!call->count && !call->counts) || (!send && !recv))
		return 0;
	s = ddp__cuda_on_device(n->cuda, send ? send : recv);
	r = recv && recv != send ? ddp__cuda_on_device(n->cuda, recv) : s;
	if (s != r)
		return err_set(e, ERR_ARGUMENT,
			       "%s: send is in the memory of %s, but recv in "
			       "that of %s: put both in the same",
			       ddp__call_text(call, text),
			       s ? "a GPU" : "the host",
			       r ? "a GPU" : "the host");
	if (s && (call->op == DDP_BAND || call->op == DDP_BOR))
		return err_set(e, ERR_ARGUMENT,
			       "%s: NCCL has no bitwise operations: reduce in "
			       "host memory",
			       ddp__call_text(call, text));
	if (!s)
		*c = n->host;
	return 0;
}

int ddp__nccl_wait_event(struct ddp_comm *c, void *event, struct err *e)
{
	struct ddp__nccl *n = c->state;
	struct ddp__watch w;
	int before, rc;

	if (n->dead)
		return nccl_ended_error(n, e);
	before = ddp__nccl_device(n);
	ddp__watch_init(&w, c, "ddp_wait_event");
	rc = nccl_fail_comm(n, ddp__nccl_await_event(n, &w, event, e), e);
	nccl_restore_device(n, before);
	if (rc && !c->broken.code)
		c->broken = *e;
	return rc;
}

int ddp__nccl_has_buffer(const struct ddp_comm *c, const void *buf)
{
	const struct ddp__nccl *n = c->state;

	return c->backend == &ddp__nccl && n &&
	       ddp__cuda_on_device(n->cuda, buf);
}

void *ddp__nccl_register(struct ddp_comm *c, void *buf, size_t size)
{
	struct ddp__nccl *n = c->state;
	struct err ignored = ERR_INIT;
	void *handle = NULL;
	int rc;

	if (c->backend != &ddp__nccl || !n || n->dead ||
	    !n->lib->register_buffer || size < ENLIST_MIN ||
	    !ddp__cuda_on_device(n->cuda, buf))
		return NULL;
	rc = n->lib->register_buffer(n->comm, buf, size, &handle);
	if (ddp__nccl_settle(n, n->comm, rc, "ncclCommRegister", &ignored))
		return NULL;
	return handle;
}

void ddp__nccl_deregister(struct ddp_comm *c, void *handle)
{
	struct ddp__nccl *n = c->state;

	if (handle && c->backend == &ddp__nccl && n && !n->dead)
		n->lib->deregister_buffer(n->comm, handle);
}

void ddp__nccl_forget_buffers(struct ddp__nccl *n, const void *buf)
{
	struct ddp__nccl_buffer **at = &n->buffers;

	while (*at) {
		struct ddp__nccl_buffer *b = *at;

		if (buf && b->buf != buf) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		if (b->handle && !n->dead)
			n->lib->deregister_buffer(n->comm, b->handle);
		free(b);
	}
}

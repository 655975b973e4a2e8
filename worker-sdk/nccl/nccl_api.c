/* nccl_api.c: the public calls for programs that call NCCL themselves or use
 * their own streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/nccl/nccl_backend.h"

/* Rank 0's message to the others: an id, or why it has none. */
struct offer {
	int32_t code;
	char text[ERR_TEXT_MAX];
	struct ddp__nccl_id id;
};

static void nccl_make_id(struct offer *o)
{
	const struct ddp__nccl_lib *lib;
	struct err e = ERR_INIT;
	int rc = ddp__nccl_load(&lib, &e);

	if (!rc) {
		rc = lib->get_unique_id(&o->id);
		if (rc)
			rc = ddp__nccl_fail(lib, NULL, rc, "ncclGetUniqueId",
					    &e);
	}
	o->code = rc;
	memcpy(o->text, e.text, sizeof(o->text));
}

int ddp_nccl_unique_id(ddp_comm *c, void *id, size_t size)
{
	struct err *e = ddp__last_error();
	char name[DDP__NAME_MAX];
	struct offer o;
	int rc;

	rc = ddp__check_comm(c, "ddp_nccl_unique_id", e);
	if (rc)
		return rc;
	if (!id || size != DDP__NCCL_ID)
		return err_set(e, ERR_ARGUMENT,
			       "ddp_nccl_unique_id: id is %s and size %zu: "
			       "give an ncclUniqueId and its size, which is %d",
			       id ? "there" : "NULL", size, DDP__NCCL_ID);
	memset(&o, 0, sizeof(o));
	if (c->rank == 0)
		nccl_make_id(&o);
	rc = ddp_broadcast(c, &o, sizeof(o), DDP_U8, 0);
	if (rc)
		return rc;
	if (o.code)
		return err_set(e, o.code, "ddp_nccl_unique_id: %s: %.900s",
			       c->peers.name(c->peers.owner, 0, name), o.text);
	memcpy(id, &o.id, size);
	return 0;
}

void *ddp_nccl_comm(const ddp_comm *c)
{
	const struct ddp__nccl *n;

	if (!c || c->magic != DDP__ALIVE || c->backend != &ddp__nccl)
		return NULL;
	n = c->state;
	return n && !n->dead ? n->comm : NULL;
}

/* The state of a communicator for memory; NULL: it is on another backend. */
static struct ddp__nccl *nccl_memory_state(ddp_comm *c)
{
	return c->backend == &ddp__nccl ? c->state : NULL;
}

int ddp_nccl_alloc(ddp_comm *c, size_t size, void **p)
{
	struct err *e = ddp__last_error();
	struct ddp__nccl *n;
	int rc = ddp__check_comm(c, "ddp_nccl_alloc", e), before;
	char what[64];

	if (rc)
		return rc;
	if (!p)
		return err_set(e, ERR_ARGUMENT, "ddp_nccl_alloc: p is NULL");
	*p = NULL;
	n = nccl_memory_state(c);
	if (!n)
		return err_set(e, ERR_ARGUMENT, "ddp_nccl_alloc needs the "
			       "backend nccl, and this one is %s",
			       c->backend->name);
	before = ddp__nccl_device(n);
	snprintf(what, sizeof(what), "ddp_nccl_alloc of %zu bytes", size);
	if (size && n->lib->mem_alloc)
		rc = n->lib->mem_alloc(p, size);
	else if (size)
		rc = ddp__cuda_check(n->cuda, n->cuda->alloc(p, size), what, e);
	if (rc > 0)
		rc = ddp__nccl_fail(n->lib, NULL, rc, what, e);
	n->cuda->set_device(before);
	return rc;
}

void ddp_nccl_free(ddp_comm *c, void *p)
{
	struct ddp__nccl *n;
	int before;

	if (!p || !c || c->magic != DDP__ALIVE)
		return;
	n = nccl_memory_state(c);
	/* it would wait for kernels that never end */
	if (!n || (n->dead && ddp__nccl_abort_crashes(n->lib->version)))
		return;
	for (ddp_comm *at = c->world->comms; at; at = at->next)
		if (at->backend == &ddp__nccl && at->state)
			ddp__nccl_forget_buffers(at->state, p);
	before = ddp__nccl_device(n);
	if (n->lib->mem_alloc)
		n->lib->mem_free(p);
	else
		n->cuda->free(p);
	n->cuda->set_device(before);
}

static int nccl_check_buffer(ddp_comm *c, const void *buf, struct err *e)
{
	const struct ddp__nccl *n = nccl_memory_state(c);

	if (!buf)
		return err_set(e, ERR_ARGUMENT, "ddp_nccl_register: buf is "
			       "NULL");
	if (!n)
		return err_set(e, ERR_ARGUMENT, "ddp_nccl_register needs the "
			       "backend nccl, and this one is %s",
			       c->backend->name);
	if (n->dead) {
		*e = c->broken;
		return e->code ? e->code
			       : err_set(e, ERR_ABORTED, "ddp_nccl_register: "
					 "the communicator was ended");
	}
	if (!ddp__cuda_on_device(n->cuda, buf))
		return err_set(e, ERR_ARGUMENT, "ddp_nccl_register: buf is in "
			       "the host's memory, which NCCL does not "
			       "register");
	for (const struct ddp__nccl_buffer *b = n->buffers; b; b = b->next)
		if (b->buf == buf)
			return err_set(e, ERR_ARGUMENT, "ddp_nccl_register: "
				       "buf is registered already: call "
				       "ddp_nccl_deregister first");
	return 0;
}

/* Registers b with NCCL; its handle stays NULL if NCCL wants none. */
static int nccl_register_buffer(struct ddp__nccl *n, struct ddp__nccl_buffer *b,
				size_t size, struct err *e)
{
	char what[64];
	int before, rc;

	if (!size || !n->lib->register_buffer)
		return 0;
	snprintf(what, sizeof(what), "ddp_nccl_register of %zu bytes", size);
	before = ddp__nccl_device(n);
	rc = n->lib->register_buffer(n->comm, b->buf, size, &b->handle);
	rc = ddp__nccl_settle(n, n->comm, rc, what, e);
	n->cuda->set_device(before);
	return rc;
}

int ddp_nccl_register(ddp_comm *c, void *buf, size_t size)
{
	static const struct ddp__call call = {.kind = DDP__INIT};
	struct err *e = ddp__last_error();
	struct ddp__nccl_buffer *b = NULL;
	struct ddp__nccl *n;
	int rc = ddp__acquire(c, &call, e);

	if (rc)
		return rc;
	rc = nccl_check_buffer(c, buf, e);
	if (!rc && !(b = calloc(1, sizeof(*b))))
		rc = err_no_memory(e, "ddp_nccl_register");
	if (!rc) {
		n = c->state;
		b->buf = buf;
		rc = nccl_register_buffer(n, b, size, e);
	}
	if (!rc) {
		b->next = n->buffers;
		n->buffers = b;
	} else {
		free(b);
	}
	ddp__release(c);
	return rc;
}

void ddp_nccl_deregister(ddp_comm *c, void *buf)
{
	struct ddp__nccl *n;
	int before;

	if (!buf || !c || c->magic != DDP__ALIVE)
		return;
	n = nccl_memory_state(c);
	if (!n)
		return;
	before = ddp__nccl_device(n);
	ddp__nccl_forget_buffers(n, buf);
	n->cuda->set_device(before);
}

int ddp_set_stream(ddp_comm *c, void *stream)
{
	static const struct ddp__call call = {.kind = DDP__INIT};
	struct err *e = ddp__last_error();
	int rc = ddp__acquire(c, &call, e);

	if (rc)
		return rc;
	if (c->backend == &ddp__nccl)
		((struct ddp__nccl *)c->state)->user = stream;
	ddp__release(c);
	return 0;
}

int ddp_wait_event(ddp_comm *c, void *event)
{
	static const struct ddp__call call = {.kind = DDP__WAIT_EVENT};
	struct err *e = ddp__last_error();
	int rc = ddp__acquire(c, &call, e);
	uint64_t ticket, from;

	if (rc)
		return rc;
	from = flight_clock();
	/* this rank waits for the others to reach the last collective */
	ticket = flight_begin(c->world->flight, c->id, c->calls,
			      ddp__call_pack(&call));
	if (!event)
		rc = err_set(e, ERR_ARGUMENT, "ddp_wait_event: event is NULL");
	else if (c->backend != &ddp__nccl)
		rc = err_set(e, ERR_ARGUMENT, "ddp_wait_event needs the "
			     "backend nccl, and this one is %s",
			     c->backend->name);
	else
		rc = ddp__nccl_wait_event(c, event, e);
	if (c->waited_ns)
		flight_add_wait(c->waited_ns, from);
	flight_end(c->world->flight, ticket, rc < 0);
	ddp__release(c);
	return rc;
}

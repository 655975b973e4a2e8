/* nccl_api.c: the public calls for programs that call NCCL themselves or use
 * their own streams. */
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

/* point_to_point.c: the public sends and receives: checks them, and numbers
 * them per peer and direction, so that both sides give a message the same
 * number. */
#include <stdlib.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/collective.h"
#include "worker-sdk/comm/request.h"
#include "worker-sdk/core/last_error.h"

static int message_check(const struct ddp_comm *c, const struct ddp__use *u,
			 struct err *e)
{
	char text[DDP__CALL_TEXT];

	if (u->call.root < 0 || u->call.root >= c->size)
		return err_set(e, ERR_ARGUMENT,
			       "%s: there is no such rank in a %s of %d",
			       ddp__call_text(&u->call, text),
			       c->name[0] ? "group" : "world", c->size);
	return ddp__check_use(c, u, 1, e);
}

/* The number of messages to or from that rank so far; NULL: no memory. */
static uint64_t *message_counter(struct ddp_comm *c,
				 const struct ddp__call *call)
{
	size_t n = (size_t)c->size;

	if (!c->messages)
		c->messages = calloc(2 * n, sizeof(*c->messages));
	if (!c->messages)
		return NULL;
	return &c->messages[(size_t)call->root +
			    (call->kind == DDP__RECV ? n : 0)];
}

static int message_start(struct ddp_comm *c, struct ddp__use *u,
			 ddp_request **request, struct err *e)
{
	char text[DDP__CALL_TEXT];
	uint64_t *count;
	int rc;

	if (!request)
		return err_set(e, ERR_ARGUMENT, "%s: request is NULL",
			       ddp__call_text(&u->call, text));
	rc = message_check(c, u, e);
	if (rc)
		return rc;
	count = message_counter(c, &u->call);
	if (!count)
		return err_no_memory(e, "%s", ddp__call_text(&u->call, text));
	u->call.number = ++*count;
	if (u->call.root == c->rank && !c->backend->serves_one)
		return ddp__self_message(c, u, request, e);
	return ddp__run_or_begin(c, u, request, e);
}

static int message_call(struct ddp_comm *c, struct ddp__use *u,
			ddp_request **request)
{
	struct err *e = ddp__last_error();
	int rc = ddp__acquire(c, &u->call, e);

	if (rc)
		return rc;
	if (c->backend->home)
		rc = ddp__route(&c, u, e);
	u->call.group = c->name[0] ? c->name : NULL;
	if (!rc)
		rc = message_start(c, u, request, e);
	ddp__release(c);
	return rc;
}

int ddp_send_async(ddp_comm *c, const void *buf, size_t count,
		   enum ddp_type type, int to, ddp_request **request)
{
	struct ddp__use u = {{DDP__SEND, type, DDP_SUM, to, count, 0, NULL},
			     buf, NULL, 1, 0};

	return message_call(c, &u, request);
}

int ddp_recv_async(ddp_comm *c, void *buf, size_t count, enum ddp_type type,
		   int from, ddp_request **request)
{
	struct ddp__use u = {{DDP__RECV, type, DDP_SUM, from, count, 0, NULL},
			     NULL, buf, 0, 1};

	return message_call(c, &u, request);
}

int ddp_send(ddp_comm *c, const void *buf, size_t count, enum ddp_type type,
	     int to)
{
	return ddp_send_async(c, buf, count, type, to, &ddp__blocking);
}

int ddp_recv(ddp_comm *c, void *buf, size_t count, enum ddp_type type, int from)
{
	return ddp_recv_async(c, buf, count, type, from, &ddp__blocking);
}

/* self_messages.c: messages of a rank to itself. */

#include <stdlib.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/collective.h"
#include "worker-sdk/comm/request.h"
#include "worker-sdk/math/copy.h"

/* A send or a receive without a counterpart yet, oldest first. All in a list
 * are of one kind. */
struct ddp__letter {
	struct ddp__letter *next;
	struct ddp__call call;
	struct ddp_request *wanted; /* the receive's; NULL: this letter is a
				     * sent message */
	char data[];
};

static size_t self_size(const struct ddp__call *call)
{
	return ddp__call_bytes(call);
}

static int self_put(struct ddp_comm *c, const struct ddp__call *call,
		    struct ddp_request *wanted, const void *data, struct err *e)
{
	size_t size = wanted ? 0 : self_size(call);
	struct ddp__letter *l = malloc(sizeof(*l) + size), **at = &c->letters;

	if (!l)
		return err_no_memory(e, "a message of %zu bytes to oneself",
				     size);
	l->next = NULL;
	l->call = *call;
	l->wanted = wanted;
	ddp__copy_plain(l->data, data, size);
	while (*at)
		at = &(*at)->next;
	*at = l;
	return 0;
}

static int self_check_same(const struct ddp__call *send,
			   const struct ddp__call *recv, struct err *e)
{
	char a[DDP__CALL_TEXT], b[DDP__CALL_TEXT];

	if (send->count == recv->count && send->type == recv->type)
		return 0;
	return err_set(
		e, ERR_ARGUMENT,
		"%s does not match %s: both must have the same count and type",
		ddp__call_text(recv, a), ddp__call_text(send, b));
}

/* Copies the sent data to the receive that waits for it. */
static int self_deliver(const struct ddp__call *send, const void *data,
			const struct ddp__call *recv, void *to, struct err *e)
{
	int rc = self_check_same(send, recv, e);

	if (!rc)
		ddp__move(to, data, self_size(send));
	return rc;
}

static int self_send(struct ddp_comm *c, struct ddp__use *u, struct err *e)
{
	struct ddp__letter *l = c->letters;
	struct ddp_request *r = l ? l->wanted : NULL;
	int rc;

	if (!r)
		return self_put(c, &u->call, NULL, u->send, e);
	rc = self_deliver(&u->call, u->send, &r->call, r->recv, e);
	ddp__leave(c, &r->call, rc, e);
	r->ended = rc ? rc : 1;
	c->letters = l->next;
	free(l);
	return rc;
}

/* 1: received; 0: no message was sent yet. */
static int self_receive(struct ddp_comm *c, struct ddp__use *u, struct err *e)
{
	struct ddp__letter *l = c->letters;
	int rc;

	if (!l || l->wanted)
		return 0;
	rc = self_deliver(&l->call, l->data, &u->call, u->recv, e);
	c->letters = l->next;
	free(l);
	return rc ? rc : 1;
}

static int self_fail_never_sent(const struct ddp__call *call, struct err *e)
{
	char text[DDP__CALL_TEXT];

	return err_set(e, ERR_ARGUMENT,
		       "%s: rank %d is this rank itself, which has not sent "
		       "that: this would wait for ever",
		       ddp__call_text(call, text), call->root);
}

static int self_begin(struct ddp_comm *c, struct ddp__use *u,
		      ddp_request **request, struct err *e)
{
	struct ddp_request *r = ddp__request_new(c, &u->call, u->send, u->recv);
	int rc;

	if (!r)
		return err_no_memory(e, "a request");
	r->own = 1;
	rc = u->recv_parts ? self_receive(c, u, e) : self_send(c, u, e);
	if (rc == 0 && u->recv_parts)
		rc = self_put(c, &u->call, r, NULL, e);
	else if (rc == 0)
		rc = 1;
	if (rc)
		rc = ddp__leave(c, &u->call, rc, e) ? e->code : 1;
	r->ended = rc;
	if (rc < 0)
		ddp__request_free(r);
	else
		*request = r;
	return rc < 0 ? rc : 0;
}

int ddp__self_message(struct ddp_comm *c, struct ddp__use *u,
		     ddp_request **request, struct err *e)
{
	int rc = ddp__enter(c, &u->call, e);

	if (rc)
		return rc;
	if (request != &ddp__blocking)
		return self_begin(c, u, request, e);
	if (u->send_parts)
		return ddp__leave(c, &u->call, self_send(c, u, e), e);
	rc = self_receive(c, u, e);
	if (!rc)
		rc = self_fail_never_sent(&u->call, e);
	return ddp__leave(c, &u->call, rc, e);
}

int ddp__self_test(struct ddp_request *r, int timeout_ms, struct err *e)
{
	if (r->comm->broken.code) {
		*e = r->comm->broken;
		return e->code;
	}
	return timeout_ms < 0 ? self_fail_never_sent(&r->call, e) : 0;
}

void ddp__self_forget(struct ddp_request *r)
{
	for (struct ddp__letter **at = &r->comm->letters; *at;
	     at = &(*at)->next) {
		struct ddp__letter *l = *at;

		if (l->wanted != r)
			continue;
		*at = l->next;
		free(l);
		return;
	}
}

void ddp__self_release(struct ddp_comm *c)
{
	while (c->letters) {
		struct ddp__letter *l = c->letters;

		c->letters = l->next;
		free(l);
	}
}

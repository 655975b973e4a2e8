/* round_store.h: the store of a round, for tests of its clients: it replaces
 * round_client_start, call and close, keeps the last request of each client,
 * and answers when the test says so. */
#ifndef TESTS_ROUND_STORE_H
#define TESTS_ROUND_STORE_H

#include <check.h>

#include "launcher/pmi/round_client.h"
#include "tests/unit/run_case.h"

enum { CLIENTS_MAX = 2 };

/* In the order in which they were started. */
static struct store_client {
	struct round_client *c;
	struct buf request;
	int is_asked, asked; /* now; how often */
	int closed;
} clients[CLIENTS_MAX];
static int nclients, start_fails;
static struct sock_addr store_server;
static const struct round_client_self store_self = {
	.job = "job", .host = "h0", .round = 7, .rank = 3,
	.arg = &store_server};

int __wrap_round_client_start(struct round_client *c, uv_loop_t *loop,
			      const struct round_client_self *self,
			      const char *purpose,
			      const struct round_client_events *events,
			      void *owner, struct err *e);
void __wrap_round_client_call(struct round_client *c);
void __wrap_round_client_close(struct round_client *c);

int __wrap_round_client_start(struct round_client *c, uv_loop_t *loop,
			      const struct round_client_self *self,
			      const char *purpose,
			      const struct round_client_events *events,
			      void *owner, struct err *e)
{
	if (start_fails)
		return err_set(e, ERR_SYSTEM, "no client");
	ck_assert_int_lt(nclients, CLIENTS_MAX);
	ck_assert_str_eq(self->job, store_self.job);
	ck_assert_uint_eq(self->rank, store_self.rank);
	*c = (struct round_client){.owner = owner, .events = events,
				   .self = *self, .purpose = purpose,
				   .loop = loop};
	clients[nclients++] = (struct store_client){
		.c = c, .request = BUF_INIT(WIRE_BODY_MAX)};
	return 0;
}

static inline struct store_client *client_of(struct round_client *c)
{
	for (int i = 0; i < nclients; i++)
		if (clients[i].c == c)
			return &clients[i];
	ck_abort_msg("a client that was not started");
	return NULL;
}

void __wrap_round_client_call(struct round_client *c)
{
	struct store_client *k = client_of(c);

	ck_assert_msg(!k->is_asked, "two requests at once");
	ck_assert_msg(!k->closed, "a request after the end");
	buf_reset(&k->request);
	c->events->put(c, &k->request, ++c->id);
	k->is_asked = 1;
	k->asked++;
}

void __wrap_round_client_close(struct round_client *c)
{
	client_of(c)->closed++;
}

/* The request of a client, which has the type. */
static inline struct wire_frame request_of(int client, enum wire_type type)
{
	struct store_client *k = &clients[client];
	struct wire_frame f;

	ck_assert_int_lt(client, nclients);
	ck_assert(k->is_asked);
	ck_assert_int_eq(wire_cut(SLICE(k->request.data, k->request.len),
				  WIRE_BODY_MAX, &f, NULL),
			 (long)k->request.len);
	ck_assert_int_eq(f.type, type);
	ck_assert_int_eq(f.kind, WIRE_REQUEST);
	ck_assert_uint_eq(f.id, k->c->id);
	return f;
}

static inline void no_request_of(int client)
{
	ck_assert(client >= nclients || !clients[client].is_asked);
}

/* The reply to it, in b, which is released. */
static inline void reply_to(int client, struct buf *b)
{
	struct store_client *k = &clients[client];
	struct wire_frame f;

	ck_assert_int_eq(wire_cut(SLICE(b->data, b->len), WIRE_BODY_MAX, &f,
				  NULL),
			 (long)b->len);
	k->is_asked = 0;
	k->c->events->on_reply(k->c, &f);
	buf_release(b);
}

static inline void reply_empty(int client, enum wire_type type)
{
	struct buf b = BUF_INIT(100);

	wire_put_empty(&b, type, WIRE_REPLY, clients[client].c->id);
	reply_to(client, &b);
}

static inline void expect_text(struct slice s, const char *text)
{
	ck_assert_uint_eq(s.len, strlen(text));
	ck_assert_mem_eq(s.data, text, s.len);
}

static inline void release_store(void)
{
	for (int i = 0; i < nclients; i++)
		buf_release(&clients[i].request);
}

#endif

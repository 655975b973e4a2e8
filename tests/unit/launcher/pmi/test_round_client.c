/* test_round_client.c: a client of the round's store whose connections are the
 * test's: what it asks, again after a loss, and when it gives up. */
/* replaces: async_client_start async_client_out async_client_flush */
/* replaces: async_client_close async_client_drop */
#include <stdlib.h>

#include "launcher/pmi/round_client.h"
#include "tests/unit/run_case.h"

static const struct async_client_events *events;
static struct async_client *l;
static struct buf out = BUF_INIT(1000);
static int starts, start_fails, flushes, closes, drops;
static uint64_t session;

static struct round_client c;
static uv_loop_t loop;
static struct sock_addr server;
static const struct sock_addr *find_server(void *arg);
static const struct round_client_self self = {
	.job = "job", .host = "h0", .round = 7, .rank = 3,
	.find_server = find_server, .arg = &server};
static int asked, replies, failed, closed;
static struct err why;

int __wrap_async_client_start(struct async_client *to, uv_loop_t *on,
			      const struct sock_addr *addr,
			      const struct wire_hello *hello,
			      const struct auth *auth,
			      const struct async_client_events *its,
			      struct err *e);
struct buf *__wrap_async_client_out(struct async_client *to);
void __wrap_async_client_flush(struct async_client *to);
void __wrap_async_client_close(struct async_client *to);
void __wrap_async_client_drop(struct async_client *to);

int __wrap_async_client_start(struct async_client *to, uv_loop_t *on,
			      const struct sock_addr *addr,
			      const struct wire_hello *hello,
			      const struct auth *auth,
			      const struct async_client_events *its,
			      struct err *e)
{
	ck_assert_ptr_eq(on, &loop);
	ck_assert_ptr_eq(addr, &server);
	ck_assert_ptr_null(auth);
	ck_assert_int_eq(hello->role, WIRE_WORKER);
	ck_assert_mem_eq(hello->job.data, "job", 3);
	ck_assert_mem_eq(hello->host.data, "h0", 2);
	ck_assert_uint_eq(hello->round, 7);
	ck_assert_uint_eq(hello->rank, 3);
	ck_assert(!starts || hello->session == session);
	session = hello->session;
	starts++;
	if (start_fails)
		return err_set(e, ERR_SYSTEM, "no connection");
	*to = (struct async_client){.events = its};
	l = to;
	events = its;
	return 0;
}

struct buf *__wrap_async_client_out(struct async_client *to)
{
	ck_assert_ptr_eq(to, l);
	return &out;
}

void __wrap_async_client_flush(struct async_client *to)
{
	ck_assert_ptr_eq(to, l);
	flushes++;
}

void __wrap_async_client_close(struct async_client *to)
{
	ck_assert_ptr_eq(to, l);
	closes++;
}

void __wrap_async_client_drop(struct async_client *to)
{
	ck_assert_ptr_eq(to, l);
	drops++;
}

/* ---- its owner ---- */

static void put(struct round_client *from, struct buf *b, uint32_t id)
{
	ck_assert_ptr_eq(from, &c);
	ck_assert_ptr_eq(b, &out);
	ck_assert_uint_eq(id, c.id);
	asked++;
}

static void on_reply(struct round_client *from, const struct wire_frame *f)
{
	ck_assert_ptr_eq(from, &c);
	ck_assert_uint_eq(f->id, c.id);
	replies++;
}

static void on_failed(struct round_client *from, const struct err *e)
{
	ck_assert_ptr_eq(from, &c);
	why = *e;
	failed++;
}

static void on_closed(struct round_client *from)
{
	ck_assert_ptr_eq(from, &c);
	closed++;
}

static const struct sock_addr *find_server(void *arg)
{
	return arg;
}

static const struct round_client_events its_events = {
	.put = put,
	.on_reply = on_reply,
	.on_failed = on_failed,
	.on_closed = on_closed,
};

static void begin(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(round_client_start(&c, &loop, &self, "MPI",
					    &its_events, &loop, NULL),
			 0);
	ck_assert_ptr_eq(c.owner, &loop);
	ck_assert_int_eq(starts, 1);
}

static void begin_open(void)
{
	begin();
	round_client_call(&c);
	events->on_open(l);
	ck_assert_int_eq(asked, 1);
}

static void link_closed(void)
{
	events->on_closed(l);
}

/* Its connection closes if it is open. */
static void end(int is_open)
{
	round_client_close(&c);
	ck_assert_int_eq(drops, is_open);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(closed, !is_open);
	if (is_open)
		link_closed();
	ck_assert_int_eq(closed, 1);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(closed, 1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void receive(enum wire_kind kind, enum wire_type type, uint32_t id)
{
	events->on_frame(l, &(struct wire_frame){type, kind, id, {"", 0}});
}

/* An error in reply to a request of that type. */
static void refuse(enum wire_type type, int code)
{
	struct buf b = BUF_INIT(1000);
	struct wire_frame f;

	wire_put_error(&b, type, WIRE_ERROR_REPLY, c.id,
		       &(struct wire_error){code, SLICE_STR("no")});
	ck_assert_int_gt(wire_cut(SLICE(b.data, b.len), 1000, &f, NULL), 0);
	events->on_frame(l, &f);
	buf_release(&b);
}

START_TEST(a_request_waits_for_the_connection)
{
	begin();
	round_client_call(&c);
	ck_assert_int_eq(asked, 0);
	events->on_open(l);
	ck_assert_int_eq(asked, 1);
	ck_assert_int_eq(flushes, 1);
	receive(WIRE_REPLY, WIRE_GET, 1);
	ck_assert_int_eq(replies, 1);
	round_client_call(&c);
	ck_assert_int_eq(asked, 2);
	ck_assert_int_eq(flushes, 2);
	ck_assert_uint_eq(c.id, 2);
	end(1);
}

START_TEST(only_the_reply_to_the_request_counts)
{
	begin();
	events->on_open(l);
	ck_assert_int_eq(asked, 0); /* nothing is asked */
	receive(WIRE_REPLY, WIRE_GET, 0);
	ck_assert_int_eq(replies, 0);
	round_client_call(&c);
	receive(WIRE_REPLY, WIRE_GET, 0); /* to an earlier one */
	receive(WIRE_NOTICE, WIRE_GET, 1);
	ck_assert_int_eq(replies, 0);
	receive(WIRE_REPLY, WIRE_GET, 1);
	receive(WIRE_REPLY, WIRE_GET, 1);
	ck_assert_int_eq(replies, 1);
	end(1);
}

START_TEST(it_reconnects_to_a_lost_server)
{
	struct err e = {.code = ERR_REMOTE, .text = "it is gone"};

	begin_open();
	events->on_lost(l, &e);
	ck_assert_int_eq(closes, 1);
	link_closed();
	ck_assert_int_eq(starts, 1);
	round_client_call(&c); /* it waits */
	ck_assert_int_eq(asked, 1);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(starts, 2);
	ck_assert_int_eq(asked, 1);
	events->on_open(l);
	ck_assert_int_eq(asked, 2);
	receive(WIRE_REPLY, WIRE_GET, 2);
	ck_assert_int_eq(replies, 1);
	ck_assert_int_eq(failed, 0);
	end(1);
}

START_TEST(a_loss_without_a_request_repeats_nothing)
{
	struct err e = {.code = ERR_REMOTE, .text = "it is gone"};

	begin_open();
	receive(WIRE_REPLY, WIRE_GET, 1);
	events->on_lost(l, &e);
	link_closed();
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(starts, 2);
	events->on_open(l);
	ck_assert_int_eq(asked, 1);
	end(1);
}

/* Its first message, or a request. */
START_TEST(a_refusal_is_a_failure_but_not_at_the_end_of_the_round)
{
	static const struct {
		enum wire_type type;
		int code, fails, is_over;
	} cases[] = {{WIRE_GET, ERR_ARGUMENT, 1, 0},
		     {WIRE_GET, ERR_ABORTED, 0, 0},
		     {WIRE_HELLO, ERR_ARGUMENT, 1, 1},
		     {WIRE_HELLO, ERR_ABORTED, 0, 1}};

	begin_open();
	refuse(cases[_i].type, cases[_i].code);
	ck_assert_int_eq(failed, cases[_i].fails);
	if (failed) {
		ck_assert_int_eq(why.code, ERR_ARGUMENT);
		ck_assert_str_eq(why.text, "MPI: no");
	}
	ck_assert_int_eq(replies, 0);
	ck_assert_int_eq(closes, cases[_i].is_over);
	receive(WIRE_REPLY, WIRE_GET, 1); /* nothing waits for it */
	ck_assert_int_eq(replies, 0);
	link_closed();
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(starts, cases[_i].is_over ? 1 : 2);
	end(!cases[_i].is_over);
}

START_TEST(it_does_not_reconnect_after_a_rejected_proof)
{
	struct err e = {.code = ERR_REFUSED, .text = "a wrong secret"};

	begin();
	l->was_refused = 1;
	events->on_lost(l, &e);
	ck_assert_int_eq(closes, 1);
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why.text, "a wrong secret");
	link_closed();
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(starts, 1);
	end(0);
}

START_TEST(nothing_is_reported_after_the_end)
{
	begin_open();
	round_client_close(&c);
	ck_assert_int_eq(drops, 1);
	refuse(WIRE_GET, ERR_ARGUMENT);
	ck_assert_int_eq(failed, 0);
	link_closed();
	ck_assert_int_eq(closed, 0); /* its timer is not closed */
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(closed, 1);
	ck_assert_int_eq(starts, 1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(a_connection_that_cannot_begin_is_a_failure)
{
	start_fails = 1;
	begin();
	ck_assert_int_eq(failed, 1);
	ck_assert_str_eq(why.text, "no connection");
	end(0);
}

int main(void)
{
	TCase *t = tcase_create("round_client");

	tcase_add_test(t, a_request_waits_for_the_connection);
	tcase_add_test(t, only_the_reply_to_the_request_counts);
	tcase_add_test(t, it_reconnects_to_a_lost_server);
	tcase_add_test(t, a_loss_without_a_request_repeats_nothing);
	tcase_add_loop_test(
		t, a_refusal_is_a_failure_but_not_at_the_end_of_the_round, 0,
		4);
	tcase_add_test(t,
		       it_does_not_reconnect_after_a_rejected_proof);
	tcase_add_test(t, nothing_is_reported_after_the_end);
	tcase_add_test(t, a_connection_that_cannot_begin_is_a_failure);
	return run_case(t);
}

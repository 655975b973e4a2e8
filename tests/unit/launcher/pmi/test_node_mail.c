/* test_node_mail.c: letters to this node and from it, and the requests to the
 * store by which they travel. */
/* replaces: round_client_start round_client_call round_client_close */
#include <errno.h>
#include <stdlib.h>

#include "launcher/pmi/node_mail.h"
#include "tests/unit/launcher/pmi/round_store.h"

enum { IN, OUT, NODE = 3 }; /* clients */

static struct node_mail m;
static uv_loop_t loop;
static int letters, failed, closed;
static int closes_at_a_letter;
static char letter[100], why[ERR_TEXT_MAX];

static void on_letter(struct node_mail *from, struct slice bytes)
{
	ck_assert_ptr_eq(from, &m);
	letters++;
	snprintf(letter, sizeof(letter), "%.*s", SLICE_FMT(bytes));
	if (closes_at_a_letter)
		node_mail_close(&m);
}

static void on_failed(struct node_mail *from, const struct err *e)
{
	ck_assert_ptr_eq(from, &m);
	failed++;
	snprintf(why, sizeof(why), "%s", e->text);
}

static void on_closed(struct node_mail *from)
{
	ck_assert_ptr_eq(from, &m);
	closed++;
}

static const struct node_mail_events events = {
	.on_letter = on_letter,
	.on_failed = on_failed,
	.on_closed = on_closed,
};

static void begin(void)
{
	ck_assert_int_eq(node_mail_start(&m, &loop, &store_self, NODE, &events,
					 &loop, NULL),
			 0);
	ck_assert_ptr_eq(m.owner, &loop);
}

static void end(void)
{
	node_mail_close(&m);
	for (int i = 0; i < nclients; i++) {
		ck_assert_int_eq(clients[i].closed, 1);
		ck_assert_int_eq(closed, 0);
		clients[i].c->events->on_closed(clients[i].c);
	}
	ck_assert_int_eq(closed, 1);
	release_store();
}

static int send_letter(uint32_t node, const char *text)
{
	return node_mail_send(&m, node, SLICE_STR(text), NULL);
}

/* ---- what it asks for ---- */

static void expect_wait(const char *name)
{
	const struct wire_frame f = request_of(IN, WIRE_WAIT);
	struct wire_wait w;
	struct reader r;

	ck_assert_int_eq(wire_get_wait(&f, &w, NULL), 0);
	ck_assert_uint_eq(w.timeout_ms, WIRE_NO_TIMEOUT);
	ck_assert_uint_eq(w.keys.count, 1);
	reader_init(&r, w.keys.bytes);
	expect_text(reader_slice(&r), name);
	ck_assert(!r.bad && !reader_left(&r));
}

static void expect_key(enum wire_type type, const char *name)
{
	const struct wire_frame f = request_of(IN, type);
	struct wire_key k;

	ck_assert_int_eq(wire_get_key(&f, &k, NULL), 0);
	expect_text(k.key, name);
}

static void expect_add(const char *name)
{
	const struct wire_frame f = request_of(OUT, WIRE_ADD);
	struct wire_add a;

	ck_assert_int_eq(wire_get_add(&f, &a, NULL), 0);
	expect_text(a.key, name);
	ck_assert_int_eq(a.delta, 1);
}

static void expect_set(const char *name, const char *value)
{
	const struct wire_frame f = request_of(OUT, WIRE_SET);
	struct wire_key_value s;

	ck_assert_int_eq(wire_get_key_value(&f, &s, NULL), 0);
	expect_text(s.key, name);
	expect_text(s.value, value);
}

static void reply_value(int found, const char *value)
{
	struct buf b = BUF_INIT(1000);

	wire_put_value(&b, WIRE_GET, WIRE_REPLY, m.in.id,
		       &(struct wire_value){(uint8_t)found, SLICE_STR(value)});
	reply_to(IN, &b);
}

static void reply_count(int64_t n)
{
	struct buf b = BUF_INIT(1000);

	wire_put_int(&b, WIRE_ADD, WIRE_REPLY, m.out.id,
		     &(struct wire_int){n});
	reply_to(OUT, &b);
}

/* ---- letters that come ---- */

START_TEST(a_letter_is_awaited_taken_and_deleted)
{
	begin();
	for (int i = 1; i < 4; i++) {
		char name[40];

		snprintf(name, sizeof(name), "MPI/mail/3/%d", i);
		expect_wait(name);
		reply_empty(IN, WIRE_WAIT);
		expect_key(WIRE_GET, name);
		reply_value(1, name);
		ck_assert_int_eq(letters, i);
		ck_assert_str_eq(letter, name);
		expect_key(WIRE_DELETE, name);
		reply_empty(IN, WIRE_DELETE);
	}
	ck_assert_int_eq(failed, 0);
	end();
}

START_TEST(a_letter_that_is_gone_is_not_delivered)
{
	begin();
	reply_empty(IN, WIRE_WAIT);
	reply_value(0, "");
	ck_assert_int_eq(letters, 0);
	ck_assert_int_eq(failed, 0);
	expect_key(WIRE_DELETE, "MPI/mail/3/1");
	end();
}

START_TEST(a_reply_that_is_torn_is_a_failure)
{
	begin();
	reply_empty(IN, WIRE_WAIT);
	reply_empty(IN, WIRE_GET);
	ck_assert_int_eq(letters, 0);
	ck_assert_int_eq(failed, 1);
	end();
}

/* Its memory may be gone in a moment. */
START_TEST(nothing_is_requested_after_the_end)
{
	begin();
	reply_empty(IN, WIRE_WAIT);
	closes_at_a_letter = 1;
	reply_value(1, "the last");
	ck_assert_int_eq(letters, 1);
	no_request_of(IN);
	clients[IN].c->events->on_closed(clients[IN].c);
	ck_assert_int_eq(closed, 1);
	release_store();
}

/* ---- letters that leave ---- */

START_TEST(letters_are_sent_one_at_a_time)
{
	begin();
	no_request_of(OUT);
	ck_assert_int_eq(send_letter(5, "ab"), 0);
	expect_add("MPI/mail/5");
	ck_assert_int_eq(send_letter(6, "cd"), 0);
	ck_assert_int_eq(send_letter(5, ""), 0);
	ck_assert_int_eq(clients[OUT].asked, 1);
	reply_count(7);
	expect_set("MPI/mail/5/7", "ab");
	reply_empty(OUT, WIRE_SET);
	expect_add("MPI/mail/6");
	reply_count(1);
	expect_set("MPI/mail/6/1", "cd");
	reply_empty(OUT, WIRE_SET);
	expect_add("MPI/mail/5");
	reply_count(8);
	expect_set("MPI/mail/5/8", "");
	reply_empty(OUT, WIRE_SET);
	no_request_of(OUT);
	ck_assert_int_eq(send_letter(2, "ef"), 0);
	expect_add("MPI/mail/2");
	ck_assert_int_eq(nclients, 2);
	expect_wait("MPI/mail/3/1"); /* all the time */
	end(); /* with a letter that has not left */
}

START_TEST(a_count_that_is_torn_is_a_failure)
{
	begin();
	ck_assert_int_eq(send_letter(5, "ab"), 0);
	reply_empty(OUT, WIRE_ADD);
	ck_assert_int_eq(failed, 1);
	no_request_of(OUT);
	end();
}

START_TEST(a_letter_that_is_too_long_is_refused)
{
	char *text = calloc(1, WIRE_VALUE_MAX + 1);
	struct err e = ERR_INIT;

	begin();
	ck_assert_int_eq(node_mail_send(&m, 5, SLICE(text, WIRE_VALUE_MAX + 1),
					&e),
			 -ENOMEM);
	no_request_of(OUT);
	ck_assert_int_eq(send_letter(6, "ab"), 0);
	expect_add("MPI/mail/6");
	free(text);
	end();
}

/* ---- start and end ---- */

START_TEST(a_client_that_does_not_start_is_an_error)
{
	struct err e = ERR_INIT;

	start_fails = 1;
	ck_assert_int_eq(node_mail_start(&m, &loop, &store_self, NODE, &events,
					 &loop, &e),
			 ERR_SYSTEM);
	start_fails = 0;
	begin();
	start_fails = 1;
	ck_assert_int_eq(send_letter(5, "ab"), ERR_SYSTEM);
	start_fails = 0;
	ck_assert_int_eq(send_letter(6, "cd"), 0);
	expect_add("MPI/mail/6");
	end();
}

START_TEST(requests_and_errors_of_its_clients_reach_the_owner)
{
	struct err e = {.code = ERR_REMOTE, .text = "the server refused"};

	begin();
	ck_assert_int_eq(send_letter(5, "ab"), 0);
	for (int i = 0; i < 2; i++) {
		struct round_client *c = clients[i].c;

		ck_assert_ptr_eq(c->loop, &loop);
		ck_assert_str_eq(c->purpose, "MPI's letters among nodes");
		ck_assert_ptr_eq(c->self.arg, &store_server);
		c->events->on_failed(c, &e);
		ck_assert_int_eq(failed, i + 1);
		ck_assert_str_eq(why, e.text);
	}
	end();
}

int main(void)
{
	TCase *c = tcase_create("node_mail");

	tcase_add_test(c, a_letter_is_awaited_taken_and_deleted);
	tcase_add_test(c, a_letter_that_is_gone_is_not_delivered);
	tcase_add_test(c, a_reply_that_is_torn_is_a_failure);
	tcase_add_test(c, nothing_is_requested_after_the_end);
	tcase_add_test(c, letters_are_sent_one_at_a_time);
	tcase_add_test(c, a_count_that_is_torn_is_a_failure);
	tcase_add_test(c, a_letter_that_is_too_long_is_refused);
	tcase_add_test(c, a_client_that_does_not_start_is_an_error);
	tcase_add_test(c, requests_and_errors_of_its_clients_reach_the_owner);
	return run_case(c);
}

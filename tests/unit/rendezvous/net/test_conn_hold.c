/* test_conn_hold.c: output that waits for the journal, on real connections that
 * get back what they send once commit allows it. */
#include <poll.h>

#include "tests/unit/rendezvous/net/conn_clients.h"
#include "tests/unit/run_case.h"

enum { CLIENTS = 2, ANSWER_MS = 10000 };

static int verdict; /* commit's result */
static size_t taken; /* bytes that the server took */

static int commit(void *arg)
{
	if (verdict == 1 && !pool.held)
		conn_hold_output(&pool);
	return verdict;
}

static size_t on_bytes(struct conn *c, struct slice in, size_t *wants)
{
	taken += in.len;
	buf_put(conn_out(c), in.data, in.len);
	return in.len;
}

static const struct conn_events events = {
	.on_bytes = on_bytes, .on_gone = on_gone, .on_closed = on_closed,
};

static void turn(void)
{
	uv_run(&loop, UV_RUN_NOWAIT);
}

static void begin(void)
{
	verdict = 0;
	taken = 0;
	open_clients(CLIENTS, &events);
	pool.commit = commit;
}

/* Sends text; returns when the server has taken n bytes in all. */
static void says(int i, const char *text, size_t n)
{
	ck_assert_int_eq(send(clients[i], text, strlen(text), 0),
			 (ssize_t)strlen(text));
	while (taken < n)
		uv_run(&loop, UV_RUN_ONCE);
}

/* Checks what has arrived by now: "" for nothing; "." at its end. */
static void hears(int i, const char *text)
{
	char got[64] = "";
	size_t n = 0;
	ssize_t rc = 1;

	turn();
	while (rc > 0 && n < strlen(text)) {
		struct pollfd p = {clients[i], POLLIN, 0};

		poll(&p, 1, ANSWER_MS);
		rc = recv(clients[i], got + n, sizeof(got) - n, MSG_DONTWAIT);
		n += rc > 0 ? (size_t)rc : 0;
		if (rc == 0)
			got[n++] = '.';
	}
	ck_assert_str_eq(got, text);
	rc = recv(clients[i], got, sizeof(got), MSG_DONTWAIT);
	ck_assert(rc <= 0 || text[0] == '.');
}

START_TEST(no_output_is_sent_before_it_is_stored)
{
	says(0, "a", 1);
	hears(0, "a");
	verdict = 1;
	says(0, "b", 2);
	says(1, "c", 3);
	hears(0, "");
	hears(1, "");
	verdict = 0;
	conn_release_held(&pool);
	hears(0, "b");
	hears(1, ""); /* it came after the mark */
	conn_flush_all(&pool);
	hears(1, "c");
}
END_TEST

START_TEST(output_after_a_mark_waits_for_the_next)
{
	verdict = 1;
	says(0, "ab", 2);
	says(0, "cd", 4);
	says(1, "ef", 6);
	conn_release_held(&pool);
	hears(0, "ab");
	conn_flush_all(&pool); /* the next mark */
	hears(0, "");
	says(0, "gh", 8);
	conn_release_held(&pool);
	hears(0, "cd");
	hears(1, "ef");
	verdict = 0;
	conn_flush_all(&pool);
	hears(0, "gh");
}
END_TEST

START_TEST(a_close_also_waits)
{
	verdict = 1;
	says(0, "ab", 2);
	buf_put(conn_out(conns[0]), "last", 4);
	conn_finish(conns[0]);
	conn_release_held(&pool);
	hears(0, "ab"); /* and not the end */
	conn_flush_all(&pool);
	hears(0, "");
	verdict = 0;
	conn_release_held(&pool);
	hears(0, "last.");
}
END_TEST

START_TEST(a_client_is_not_read_while_nothing_is_stored)
{
	verdict = 2;
	says(0, "ab", 2);
	ck_assert(conn_is_stopped(conns[0]));
	says(0, "cd", 2);
	for (int i = 0; i < 10; i++)
		turn();
	ck_assert_uint_eq(taken, 2);
	ck_assert(!conn_is_stopped(conns[1]));
	verdict = 0;
	conn_release_held(&pool);
	conn_flush_all(&pool);
	while (taken < 4)
		uv_run(&loop, UV_RUN_ONCE);
	hears(0, "abcd");
}
END_TEST

START_TEST(a_dropped_connection_waits_for_nothing)
{
	verdict = 1;
	says(0, "ab", 2);
	ck_assert_ptr_ne(pool.held, NULL);
	conn_drop(conns[0]);
	ck_assert_ptr_eq(pool.held, NULL);
	verdict = 2;
	says(1, "cd", 4);
	ck_assert_ptr_ne(pool.stopped, NULL);
	conn_drop(conns[1]);
	ck_assert_ptr_eq(pool.stopped, NULL);
	conn_release_held(&pool);
	hears(0, ".");
	hears(1, ".");
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("conn_marked");

	tcase_add_checked_fixture(tc, begin, close_clients);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, no_output_is_sent_before_it_is_stored);
	tcase_add_test(tc, output_after_a_mark_waits_for_the_next);
	tcase_add_test(tc, a_close_also_waits);
	tcase_add_test(tc, a_client_is_not_read_while_nothing_is_stored);
	tcase_add_test(tc, a_dropped_connection_waits_for_nothing);
	return run_case(tc);
}

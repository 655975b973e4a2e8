/* test_conn_turn.c: a client that floods the server gets one read buffer per
 * turn of the loop, and the others get their turn. Real sockets; counts bytes,
 * not time. */
#include <poll.h>

#include "tests/unit/rendezvous/net/conn_clients.h"
#include "tests/unit/run_case.h"

enum {
	CLIENTS = 3,
	TURNS = 3,
	WAITING = (TURNS + 1) * CONN_READ_MAX, /* bytes from the flooding
						* client */
	ANSWER_MS = 10000,
};

static size_t taken[CLIENTS]; /* bytes that the server took */
static size_t whole; /* on_bytes leaves shorter input */

/* Echoes what it takes, except for the flooding client. */
static size_t on_bytes(struct conn *c, struct slice in, size_t *wants)
{
	int i = number_of(c);
	size_t n = whole ? in.len - in.len % whole : in.len;

	*wants = whole ? whole - in.len % whole : 0;
	taken[i] += n;
	if (i != 1)
		buf_put(conn_out(c), in.data, n);
	return n;
}

static const struct conn_events events = {
	.on_bytes = on_bytes, .on_gone = on_gone, .on_closed = on_closed,
};

static void begin(void)
{
	whole = 0;
	memset(taken, 0, sizeof(taken));
	open_clients(CLIENTS, &events);
}

static void await_input(int fd)
{
	struct pollfd p = {fd, POLLIN, 0};

	ck_assert_int_eq(poll(&p, 1, ANSWER_MS), 1);
}

static int server_end(int i)
{
	uv_os_fd_t fd;

	ck_assert_int_eq(uv_fileno((uv_handle_t *)&conns[i]->tcp, &fd), 0);
	return fd;
}

/* One client sends until WAITING bytes can be read. */
static size_t pour(void)
{
	static const char zeroes[CONN_READ_MAX];
	int fd = server_end(1), low = WAITING, one = 1;
	size_t sent = 0;
	ssize_t n;

	/* makes room for the bytes, and makes poll wait for them */
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low,
				    sizeof(low)), 0);
	while (sent < WAITING) {
		n = send(clients[1], zeroes, sizeof(zeroes), 0);
		ck_assert_int_gt((int)n, 0);
		sent += (size_t)n;
	}
	await_input(fd);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one,
				    sizeof(one)), 0);
	return sent;
}

/* The clients on both sides of it send, since the loop's order is unknown. */
static void ask(void)
{
	for (int i = 0; i < CLIENTS; i += 2) {
		ck_assert_int_eq(send(clients[i], "asks", 4, 0), 4);
		await_input(server_end(i));
	}
}

static void hear(void)
{
	char got[8];

	for (int i = 0; i < CLIENTS; i += 2) {
		await_input(clients[i]);
		ck_assert_int_eq(recv(clients[i], got, sizeof(got),
				      MSG_DONTWAIT), 4);
	}
}

static void take_turns(size_t sent)
{
	size_t before;

	for (int i = 0; i < TURNS; i++) {
		before = taken[1];
		ask();
		uv_run(&loop, UV_RUN_NOWAIT);
		ck_assert_uint_le(taken[1] - before, CONN_READ_MAX);
		ck_assert_uint_eq(taken[0], 4 * (size_t)(i + 1));
		ck_assert_uint_eq(taken[2], 4 * (size_t)(i + 1));
		hear();
	}
	ck_assert_uint_gt(taken[1], 0);
	/* no byte is lost */
	while (taken[1] < sent)
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_uint_eq(taken[1], sent);
}

START_TEST(a_fast_sender_gets_one_buffer_per_turn)
{
	take_turns(pour());
}
END_TEST

START_TEST(a_fast_sender_with_half_a_request_gets_one_buffer)
{
	size_t sent;

	whole = 4; /* the others' input is complete */
	ck_assert_int_eq(send(clients[1], "oo", 2, 0), 2);
	while (conns[1]->in.len < 2)
		uv_run(&loop, UV_RUN_ONCE);
	sent = pour();
	ck_assert_int_eq(send(clients[1], "oo", 2, 0), 2);
	take_turns(sent + 4);
}
END_TEST

/* The end of a turn must not hide the end of the stream. */
START_TEST(an_end_after_a_full_buffer_is_seen)
{
	static const char zeroes[CONN_READ_MAX];
	int fd = server_end(1), low = sizeof(zeroes), one = 1;

	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low,
				    sizeof(low)), 0);
	ck_assert_int_eq(send(clients[1], zeroes, sizeof(zeroes), 0),
			 (ssize_t)sizeof(zeroes));
	await_input(fd);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one,
				    sizeof(one)), 0);
	ck_assert_int_eq(shutdown(clients[1], SHUT_WR), 0);
	while (conns[1])
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_uint_eq(taken[1], sizeof(zeroes));
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("conn_turn");

	tcase_add_checked_fixture(tc, begin, close_clients);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_fast_sender_gets_one_buffer_per_turn);
	tcase_add_test(tc, a_fast_sender_with_half_a_request_gets_one_buffer);
	tcase_add_test(tc, an_end_after_a_full_buffer_is_seen);
	return run_case(tc);
}

/* test_conn.c: a connection whose writes fail. */
#include <signal.h>

#include "tests/unit/rendezvous/net/conn_clients.h"
#include "tests/unit/run_case.h"

static size_t taken;
static int resets; /* the client resets as soon as its request is taken */

/* Echoes what it takes. */
static size_t on_bytes(struct conn *c, struct slice in, size_t *wants)
{
	taken += in.len;
	if (resets) {
		sock_reset_at_close(clients[0]);
		close(clients[0]);
		clients[0] = -1;
	}
	buf_put(conn_out(c), in.data, in.len);
	return in.len;
}

static const struct conn_events events = {
	.on_bytes = on_bytes, .on_gone = on_gone, .on_closed = on_closed,
};

static int server_end(int i)
{
	uv_os_fd_t fd;

	ck_assert_int_eq(uv_fileno((uv_handle_t *)&conns[i]->tcp, &fd), 0);
	return fd;
}

/* The client stays connected and waits for its reply. */
START_TEST(write_error_closes_after_the_input_has_been_read)
{
	static const char request[100000];
	char byte;

	taken = 0;
	signal(SIGPIPE, SIG_IGN); /* as the server does */
	open_clients(1, &events);
	ck_assert_int_eq((int)send(clients[0], request, sizeof(request), 0),
			 (int)sizeof(request));
	/* each write of the server fails with EPIPE from here on */
	ck_assert_int_eq(shutdown(server_end(0), SHUT_WR), 0);
	while (conns[0])
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_uint_eq(taken, sizeof(request));
	ck_assert_int_eq((int)recv(clients[0], &byte, 1, 0), 0);
	close_clients();
}
END_TEST

/* The kernel tells the reset to the write of the reply, and no read. */
START_TEST(a_reset_that_a_write_meets_is_a_reset)
{
	resets = 1;
	signal(SIGPIPE, SIG_IGN);
	open_clients(1, &events);
	ck_assert_int_eq((int)send(clients[0], "ping", 4, 0), 4);
	while (conns[0])
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_str_eq(gone_why, "its connection broke (connection reset by "
				   "peer), reset");
	close_clients();
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("conn");

	tcase_set_timeout(c, 20);
	tcase_add_test(c, write_error_closes_after_the_input_has_been_read);
	tcase_add_test(c, a_reset_that_a_write_meets_is_a_reset);
	return run_case(c) != 0;
}

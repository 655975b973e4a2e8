/* conn_clients.h: connections of conn.h with real sockets at both ends, on a
 * loop of their own, for the tests of one. */
#ifndef TESTS_UNIT_CONN_CLIENTS_H
#define TESTS_UNIT_CONN_CLIENTS_H

#include <arpa/inet.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/conn.h"

enum { CLIENTS_MAX = 4 };

static uv_loop_t loop;
static struct conn_pool pool;
static uv_tcp_t listener;
static const struct conn_events *conn_events;
static struct conn *conns[CLIENTS_MAX]; /* NULL: closed */
static int clients[CLIENTS_MAX], nconns; /* the others' ends of them */

static int number_of(const struct conn *c)
{
	int i = 0;

	while (conns[i] != c)
		i++;
	return i;
}

/* For conn_events. */
static void on_gone(struct conn *c, const char *why)
{
}

static void on_closed(struct conn *c)
{
	conns[number_of(c)] = NULL;
	free(c);
}

static void on_connection(uv_stream_t *l, int status)
{
	conns[nconns] = malloc(sizeof *conns[0]);
	ck_assert_int_eq(conn_open(conns[nconns++], &pool, conn_events,
				   1 << 20, l), 0);
}

static void open_clients(int n, const struct conn_events *events)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr = {htonl(INADDR_LOOPBACK)}};
	int size = sizeof a;

	memset(&pool, 0, sizeof pool);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	pool.loop = &loop;
	pool.hello_ms = 60000;
	conn_events = events;
	nconns = 0;
	uv_tcp_init(&loop, &listener);
	ck_assert_int_eq(uv_tcp_bind(&listener, (struct sockaddr *)&a, 0), 0);
	ck_assert_int_eq(uv_listen((uv_stream_t *)&listener, 8, on_connection),
			 0);
	ck_assert_int_eq(uv_tcp_getsockname(&listener, (struct sockaddr *)&a,
					    &size), 0);
	for (int i = 0; i < n; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		ck_assert_int_eq(connect(clients[i], (struct sockaddr *)&a,
					 sizeof a), 0);
		while (nconns <= i)
			uv_run(&loop, UV_RUN_ONCE);
	}
}

/* All are closed, and nothing is left. */
static void close_clients(void)
{
	for (int i = 0; i < nconns; i++) {
		close(clients[i]);
		if (conns[i])
			conn_drop(conns[i]);
	}
	uv_close((uv_handle_t *)&listener, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	for (int i = 0; i < nconns; i++)
		ck_assert_ptr_null(conns[i]);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	conn_pool_release(&pool);
}

#endif

/* conn_clients.h: for tests of conn.h: connections with real sockets at both
 * ends, on a loop of their own. */
#ifndef TESTS_UNIT_CONN_CLIENTS_H
#define TESTS_UNIT_CONN_CLIENTS_H

#include <arpa/inet.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/net/listener.h"

enum { CLIENTS_MAX = 4 };

static uv_loop_t loop;
static struct conn_pool pool;
static struct listener listener;
static const struct conn_events *conn_events;
static struct conn *conns[CLIENTS_MAX]; /* NULL: closed */
static int clients[CLIENTS_MAX], nconns; /* the clients' ends */

static int number_of(const struct conn *c)
{
	int i = 0;

	while (conns[i] != c)
		i++;
	return i;
}

static char gone_why[100]; /* the last lost client's */

/* For conn_events. */
static void on_gone(struct conn *c, const char *why)
{
	snprintf(gone_why, sizeof(gone_why), "%s%s", why,
		 c->reset ? ", reset" : "");
}

static void on_closed(struct conn *c)
{
	conns[number_of(c)] = NULL;
	free(c);
}

static enum listener_answer on_connection(struct listener *l, int fd,
					  int scarce)
{
	conns[nconns] = malloc(sizeof(*conns[0]));
	ck_assert_int_eq(conn_open(conns[nconns++], &pool, conn_events,
				   1 << 20, fd), 0);
	return LISTENER_TOOK;
}

static void open_clients(int n, const struct conn_events *events)
{
	struct sock_addr a;
	struct err e = ERR_INIT;
	int fd;

	memset(&pool, 0, sizeof(pool));
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	pool.loop = &loop;
	pool.hello_ms = 60000;
	conn_events = events;
	nconns = 0;
	ck_assert(sock_addr_number("127.0.0.1", 0, &a));
	fd = sock_listen(&a, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	listener = (struct listener){.whose = "the test",
				     .on_connection = on_connection};
	ck_assert_int_eq(listener_open(&listener, &loop, fd), 0);
	ck_assert_int_eq(listener_start(&listener), 0);
	for (int i = 0; i < n; i++) {
		clients[i] = socket(AF_INET, SOCK_STREAM, 0);
		ck_assert_int_eq(connect(clients[i], (struct sockaddr *)&a.ss,
					 a.len), 0);
		while (nconns <= i)
			uv_run(&loop, UV_RUN_ONCE);
	}
}

/* Closes all connections and checks that nothing is left. */
static void close_clients(void)
{
	for (int i = 0; i < nconns; i++) {
		close(clients[i]);
		if (conns[i])
			conn_drop(conns[i]);
	}
	listener_close(&listener);
	uv_run(&loop, UV_RUN_DEFAULT);
	for (int i = 0; i < nconns; i++)
		ck_assert_ptr_null(conns[i]);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	conn_pool_release(&pool);
}

#endif

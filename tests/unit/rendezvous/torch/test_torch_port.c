/* test_torch_port.c: which clients get a place at a full port of a round's
 * store: real connections; the test is the gate. */
/* replaces: calloc malloc */
#include <arpa/inet.h>
#include <check.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous/torch/torch_port.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/run_case.h"

enum { PLACES = 256, MORE = 3 }; /* the places for one rank */

static uv_loop_t loop;
static struct conn_pool pool;
static struct torch_port *port;
static struct torch_client *came[PLACES + MORE];
static int clients[PLACES + MORE];
static int ncame, nclients, nlate;

static void on_come(void *owner, struct torch_client *k,
		    const struct sock_addr *from, const struct sock_addr *to)
{
	came[ncame++] = k;
	torch_client_hold(k, k, 60000);
}

static uint64_t waited_since;
static int gave_up;

static void on_gave_up(void *owner, const struct torch_wait *w)
{
	waited_since = w->since;
	gave_up = 1;
}

static void on_late(void *ticket)
{
	nlate++;
}

static void on_gone(void *ticket)
{
}

static struct sock_addr at;

static void come(int n)
{
	for (int i = 0; i < n; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		ck_assert_int_eq(connect(fd, (struct sockaddr *)&at.ss, at.len),
				 0);
		clients[nclients++] = fd;
	}
}

static void begin(void)
{
	static const struct torch_gate gate = {
		.on_come = on_come, .on_late = on_late, .on_gone = on_gone,
		.on_gave_up = on_gave_up,
	};
	static const struct store_limits limits = {
		.keys = 1, .bytes = 1024, .value = 512, .ranks = 1,
	};
	struct err e = ERR_INIT;
	uint16_t number = 0;

	memset(&pool, 0, sizeof(pool));
	ncame = nclients = nlate = 0;
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	pool.loop = &loop;
	ck_assert(sock_addr_number("127.0.0.1", 0, &at));
	ck_assert_msg(torch_port_open(&port, &pool, store_new(&limits), &at, 1,
				      1, &gate, &number, &e) == 0, "%s",
		      e.text);
	sock_addr_set_port(&at, number);
	ck_assert_int_eq(torch_port_begin(port, &e), 0);
	/* all places are taken by clients not yet admitted */
	come(PLACES);
	while (ncame < PLACES)
		uv_run(&loop, UV_RUN_ONCE);
}

static void end(void)
{
	torch_port_end(port);
	torch_port_close(port);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	conn_pool_release(&pool);
	for (int i = 0; i < nclients; i++)
		close(clients[i]);
	ck_assert_int_eq(nlate, 0);
}

static int is_closed(int client)
{
	char byte;

	return recv(clients[client], &byte, 1, MSG_DONTWAIT) == 0;
}

static void await_all(void)
{
	while (ncame < nclients)
		uv_run(&loop, UV_RUN_ONCE);
	for (int i = PLACES; i < nclients; i++)
		ck_assert(!is_closed(i));
}

START_TEST(a_client_waits_while_others_are_unidentified)
{
	come(MORE);
	uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(ncame, PLACES);
	for (int i = 0; i < MORE; i++)
		torch_client_refuse(came[i]);
	await_all();
	ck_assert(is_closed(0));
}
END_TEST

START_TEST(clients_wait_while_there_is_no_memory)
{
	/* places are free first, memory later */
	for (int i = 0; i < MORE; i++)
		torch_client_refuse(came[i]);
	uv_run(&loop, UV_RUN_NOWAIT);
	no_memory = 3;
	come(MORE);
	await_all();
	ck_assert_int_eq(no_memory, 0);
}
END_TEST

/* Closing a client needs no memory. */
START_TEST(a_full_port_closes_clients_even_without_memory)
{
	for (int i = 0; i < PLACES; i++)
		torch_client_admit(came[i]);
	no_memory = 3;
	come(MORE);
	for (int i = PLACES; i < nclients; i++)
		while (!is_closed(i))
			uv_run(&loop, UV_RUN_ONCE);
	no_memory = 0;
	ck_assert_int_eq(ncame, PLACES);
}
END_TEST

/* Their places are free when their sockets are closed, at the end of the loop's
 * turn: a client accepted in that turn finds the port full. */
START_TEST(a_client_waits_while_strangers_are_closed)
{
	come(1);
	for (int i = 0; i < PLACES; i++)
		torch_client_refuse(came[i]);
	uv_run(&loop, UV_RUN_NOWAIT);
	await_all();
}
END_TEST

/* A client gives up its wait before the server has read the request. */
START_TEST(a_wait_that_is_given_up_at_once_has_a_beginning)
{
	static const char said[] = "\0\xce\xf7\x85\x3c"
				   "\6\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0k"
				   "\14";
	uint64_t before = uv_now(&loop);

	ck_assert_int_eq((int)send(clients[0], said, sizeof(said) - 1, 0),
			 (int)sizeof(said) - 1);
	torch_client_admit(came[0]);
	while (!gave_up)
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_uint_ge(waited_since, before);
}
END_TEST

START_TEST(one_closing_connection_is_enough)
{
	come(1);
	torch_client_refuse(came[0]);
	for (int i = 1; i < PLACES; i++)
		torch_client_admit(came[i]);
	uv_run(&loop, UV_RUN_NOWAIT);
	await_all();
}
END_TEST

START_TEST(a_client_is_closed_if_the_job_has_all_places)
{
	char byte;

	come(1);
	for (int i = 0; i < PLACES; i++)
		torch_client_admit(came[i]);
	uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(recv(clients[PLACES], &byte, 1, 0), 0);
	ck_assert_int_eq(ncame, PLACES);
	/* one leaves, and the next gets its place */
	close(clients[0]);
	clients[0] = clients[--nclients];
	uv_run(&loop, UV_RUN_ONCE);
	come(1);
	while (ncame == PLACES)
		uv_run(&loop, UV_RUN_ONCE);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("torch_port");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc,
		a_client_waits_while_others_are_unidentified);
	tcase_add_test(tc, a_client_waits_while_strangers_are_closed);
	tcase_add_test(tc,
		clients_wait_while_there_is_no_memory);
	tcase_add_test(tc,
		a_full_port_closes_clients_even_without_memory);
	tcase_add_test(tc, a_wait_that_is_given_up_at_once_has_a_beginning);
	tcase_add_test(tc, one_closing_connection_is_enough);
	tcase_add_test(tc, a_client_is_closed_if_the_job_has_all_places);
	return run_case(tc);
}

/* test_listener.c: a server without memory or descriptors for a connection
 * keeps listening. Real connections to a server on this test's loop. */
/* replaces: calloc malloc */
#include <arpa/inet.h>
#include <check.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock.h"
#include "rendezvous/daemon/daemon.h"
#include "rendezvous/wire.h"
#include "tests/unit/no_memory.h"
#include "tests/unit/run_case.h"

enum { CLIENTS = 3 };

static uv_loop_t loop;
static struct server *server;
static struct sock_addr at;

/* The server ends with the test's process. */
static void set_up(void)
{
	struct auth auth;
	struct daemon_options o = {.lease_ms = 60000, .hello_ms = 60000,
				   .silent_ms = 60000, .listeners = 1,
				   .max_connections = 64, .max_jobs = 8,
				   .max_keys = 64, .max_bytes = 1 << 20,
				   .idle_ms = 60000};
	struct err e = ERR_INIT;
	int fd;

	auth_none(&auth);
	ck_assert(sock_addr_number("127.0.0.1", 0, &at));
	fd = sock_listen(&at, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	o.auth = &auth;
	o.listen_fds = &fd;
	o.parent_fd = -1;
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_msg(daemon_new(&server, &loop, &o, &e) == 0, "%s", e.text);
}

static int come(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&at.ss, at.len), 0);
	return fd;
}

static void await_greeting(int fd)
{
	char greeting[WIRE_GREETING_SIZE];

	while (recv(fd, greeting, sizeof(greeting), MSG_DONTWAIT | MSG_PEEK) <
	       (ssize_t)sizeof(greeting))
		uv_run(&loop, UV_RUN_ONCE);
}

START_TEST(client_that_comes_while_there_is_no_memory_is_greeted_later)
{
	int fds[CLIENTS];

	no_memory = 2;
	for (int i = 0; i < CLIENTS; i++)
		fds[i] = come();
	for (int i = 0; i < CLIENTS; i++)
		await_greeting(fds[i]);
	ck_assert_int_eq(no_memory, 0);
	for (int i = 0; i < CLIENTS; i++)
		close(fds[i]);
}
END_TEST

/* Uses up all descriptors; returns the former limit. */
static struct rlimit take_descriptors(void)
{
	struct rlimit old, now;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	now = old;
	now.rlim_cur = (rlim_t)dup(0);
	close((int)now.rlim_cur);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
	return old;
}

static int is_greeted(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) >= 0;
}

START_TEST(client_that_finds_no_descriptor_is_greeted_later)
{
	struct rlimit old;
	int fds[CLIENTS];

	for (int i = 0; i < CLIENTS; i++)
		fds[i] = come();
	old = take_descriptors();
	for (int i = 0; i < CLIENTS; i++) {
		uv_run(&loop, UV_RUN_ONCE);
		ck_assert_int_eq(is_greeted(fds[i]), 0);
	}
	setrlimit(RLIMIT_NOFILE, &old);
	for (int i = 0; i < CLIENTS; i++)
		await_greeting(fds[i]);
	for (int i = 0; i < CLIENTS; i++)
		close(fds[i]);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("listener");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_test(c,
		client_that_comes_while_there_is_no_memory_is_greeted_later);
	tcase_add_test(c,
		client_that_finds_no_descriptor_is_greeted_later);
	return run_case(c) != 0;
}

/* test_client.c: libddp's client with a real server that dies and returns. The
 * server runs in a child; the test provides the client's clock and connects
 * (the Makefile wraps both), so an outage of a minute takes no time. */
/* replaces: clock_gettime connect */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "rendezvous/client/client.h"
#include "rendezvous/daemon/daemon.h"
#include "tests/unit/run_case.h"

enum { AGAIN_MS = 30000 };

static struct endpoint where = {"127.0.0.1", 0};
static pid_t server;
static struct client *client;

/* ---- the client's clock and its connects ---- */

static uint64_t ahead_s; /* ahead of the real clock */
/* Each refused connect advances the clock by step_s; the server is back after
 * returns_after of them. */
static unsigned step_s, returns_after, refused;

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __real_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	int rc = __real_clock_gettime(id, t);

	t->tv_sec += (time_t)ahead_s;
	return rc;
}

static void start_server(int drops);

/* While there is no server, connects are refused without asking the kernel. */
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	if (server > 0)
		return __real_connect(fd, to, len);
	ahead_s += step_s;
	if (++refused == returns_after)
		start_server(0);
	errno = ECONNREFUSED;
	return -1;
}

/* ---- the server ---- */

static int listen_here(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr = {htonl(INADDR_LOOPBACK)},
				.sin_port = htons(where.port)};
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, size), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &size), 0);
	where.port = ntohs(a.sin_port);
	return fd;
}

/* A server of one rank without an agent. */
static void serve(int fd)
{
	const struct auth auth = {.methods = WIRE_NO_PROOF};
	struct daemon_options options = {
		.listen_fds = &fd, .listeners = 1, .auth = &auth,
		.parent_fd = -1, .lease_ms = 60000, .hello_ms = 60000,
		.silent_ms = 60000, .max_connections = 64, .max_jobs = 8,
		.max_keys = 1024, .max_bytes = 1 << 20, .idle_ms = 60000,
		.guests = 1, .job = "guests",
	};
	struct err e = ERR_INIT;
	struct server *s;
	uv_loop_t loop;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	if (uv_loop_init(&loop) || daemon_new(&s, &loop, &options, &e))
		_exit(1);
	daemon_run(s);
	_exit(0);
}

/* Closes the first `drops` connections without a reply, then serves. */
static void start_server(int drops)
{
	int fd = listen_here();

	fflush(NULL);
	server = fork();
	if (server == 0) {
		ahead_s = 0;
		while (drops-- > 0)
			close(accept(fd, NULL, NULL));
		serve(fd);
	}
	ck_assert_int_gt(server, 0);
	close(fd);
}

static void kill_server(void)
{
	if (server > 0) {
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
	}
	server = 0;
}

static int connect_client(struct err *e)
{
	const struct wire_hello hello = {.role = WIRE_WORKER,
					 .job = SLICE_STR("guests"),
					 .host = SLICE_STR("h")};
	struct auth auth;

	auth_none(&auth);
	return client_connect(&client, &where, &hello, &auth, 20000, e);
}

static void set_up(void)
{
	struct err e = ERR_INIT;

	start_server(0);
	ck_assert_msg(connect_client(&e) == 0, "%s", e.text);
	client_set_reconnect(client, AGAIN_MS);
}

static void tear_down(void)
{
	client_free(client);
	kill_server();
}

/* From the next attempt on, n connects are refused, and each takes
 * `seconds`. */
static void outage(unsigned n, unsigned seconds)
{
	kill_server();
	refused = 0;
	returns_after = n;
	step_s = seconds;
}

static int set(struct err *e)
{
	return client_set(client, SLICE_STR("k"), SLICE_STR("v"), e);
}

/* ---- tests ---- */

START_TEST(call_outlives_an_outage_of_reconnect_timeout)
{
	struct err e = ERR_INIT;

	set_up();
	outage(4, 7); /* 28 s */
	ck_assert_msg(set(&e) == 0, "%s", e.text);
	ck_assert_uint_eq(refused, 4);
	tear_down();
}
END_TEST

START_TEST(wait_outlives_an_outage_that_is_longer_than_its_timeout)
{
	struct slice key = SLICE_STR("nowhere");
	struct err e = ERR_INIT;

	set_up();
	outage(4, 7);
	/* the server gets the request and reports the timeout */
	ck_assert_int_eq(client_wait(client, &key, 1, 3000, &e), ERR_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(e.text, "nowhere"));
	ck_assert_msg(set(&e) == 0, "%s", e.text);
	tear_down();
}
END_TEST

START_TEST(call_fails_after_reconnect_timeout_and_the_next_one_tries_again)
{
	struct err e = ERR_INIT;
	unsigned before;

	set_up();
	outage(0, 7);
	ck_assert_int_eq(set(&e), ERR_REMOTE);
	ck_assert_ptr_nonnull(strstr(e.text, "did not come back"));
	ck_assert_uint_eq(refused, 5); /* at 7, 14, 21, 28 and 35 s */
	/* one attempt per call, and the text names the first loss */
	before = refused;
	ck_assert_int_eq(set(&e), ERR_REMOTE);
	ck_assert_uint_eq(refused, before + 1);
	ck_assert_ptr_null(strstr(strstr(e.text, "come back") + 1,
				  "come back"));
	start_server(0);
	ck_assert_msg(set(&e) == 0, "%s", e.text);
	/* a new loss has the whole time again */
	outage(4, 7);
	ck_assert_msg(set(&e) == 0, "%s", e.text);
	tear_down();
}
END_TEST

START_TEST(connection_closed_before_its_greeting_is_tried_again)
{
	struct err e = ERR_INIT;

	start_server(4);
	ck_assert_msg(connect_client(&e) == 0, "%s", e.text);
	tear_down();
}
END_TEST

START_TEST(five_connections_closed_before_their_greeting_are_an_error)
{
	struct err e = ERR_INIT;

	start_server(5);
	ck_assert_int_eq(connect_client(&e), ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "without a greeting"));
	client = NULL;
	tear_down();
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("client");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, call_outlives_an_outage_of_reconnect_timeout);
	tcase_add_test(c,
		       wait_outlives_an_outage_that_is_longer_than_its_timeout);
	tcase_add_test(c,
	      call_fails_after_reconnect_timeout_and_the_next_one_tries_again);
	tcase_add_test(c,
		connection_closed_before_its_greeting_is_tried_again);
	tcase_add_test(c,
		five_connections_closed_before_their_greeting_are_an_error);
	return run_case(c) != 0;
}

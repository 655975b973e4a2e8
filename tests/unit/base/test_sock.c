/* test_sock.c: endpoints as text, addresses, and real sockets on loopback. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sock.h"
#include "tests/unit/run_case.h"

static struct err e;

static void reset(void)
{
	e = (struct err)ERR_INIT;
}

static struct sock_addr address(const char *host, uint16_t port)
{
	struct endpoint ep = {.port = port};
	struct sock_addr a;

	strcpy(ep.host, host);
	ck_assert_msg(sock_resolve(&ep, &a, 1, &e) == 1, "%s", e.text);
	return a;
}

START_TEST(the_address_towards_a_peer)
{
	struct sock_addr peer = address("127.0.0.9", 0), own;
	char text[SOCK_TEXT_MAX];

	ck_assert_int_eq(sock_addr_towards(&peer, &own), 0);
	ck_assert_str_eq(sock_addr_text(&own, text), "127.0.0.1:0");
	peer = address("255.255.255.255", 9);
	ck_assert_int_lt(sock_addr_towards(&peer, &own), 0);
}
END_TEST

START_TEST(valid_endpoints_are_parsed)
{
	static const struct {
		const char *text, *host;
		uint16_t port;
		const char *again;
	} rows[] = {
		{"h1", "h1", 29400, "h1:29400"},
		{"h1:0", "h1", 0, "h1:0"},
		{"h1:65535", "h1", 65535, "h1:65535"},
		{"10.0.0.1:80", "10.0.0.1", 80, "10.0.0.1:80"},
		{"[fd77::1]:80", "fd77::1", 80, "[fd77::1]:80"},
		{"[fd77::1]", "fd77::1", 29400, "[fd77::1]:29400"},
		{"fd77::1", "fd77::1", 29400, "[fd77::1]:29400"},
		{"::1", "::1", 29400, "[::1]:29400"},
	};
	char text[SOCK_TEXT_MAX];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct endpoint ep;
		ck_assert_msg(!endpoint_parse(&ep, rows[i].text, 29400, &e),
			      "%s", e.text);
		ck_assert_str_eq(ep.host, rows[i].host);
		ck_assert_uint_eq(ep.port, rows[i].port);
		ck_assert_str_eq(endpoint_text(&ep, text), rows[i].again);
	}
}
END_TEST

START_TEST(invalid_endpoints_are_quoted)
{
	static const char *const rows[] = {
		"",	     ":80",   "h1:",	  "h1:65536", "h1:-1",
		"h1:x",	     "h1:8 ", "[::1",	  "[::1]80",  "[::1]:",
		"[]:80",     "a b",   "a/b:80",	  "h1:0x10",  "h1:1.5",
	};
	struct endpoint ep;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		reset();
		ck_assert_msg(endpoint_parse(&ep, rows[i], 1, &e) == ERR_USAGE,
			      "'%s' was taken", rows[i]);
		ck_assert_ptr_nonnull(strstr(e.text, rows[i]));
		ck_assert_ptr_nonnull(strstr(e.text, "HOST:PORT"));
	}
}
END_TEST

START_TEST(a_host_has_at_most_255_bytes)
{
	char text[400];
	struct endpoint ep;

	memset(text, 'h', sizeof(text));
	text[255] = 0;
	ck_assert_int_eq(endpoint_parse(&ep, text, 1, &e), 0);
	text[255] = 'h';
	text[256] = 0;
	ck_assert_int_eq(endpoint_parse(&ep, text, 1, &e), ERR_USAGE);
}
END_TEST

START_TEST(addresses_as_text)
{
	char text[SOCK_TEXT_MAX];
	struct sock_addr a = address("10.1.2.3", 29400);
	struct sock_addr b = address("fd77::1", 80);

	ck_assert_str_eq(sock_addr_text(&a, text), "10.1.2.3:29400");
	ck_assert_str_eq(sock_addr_host(&a, text), "10.1.2.3");
	ck_assert_uint_eq(sock_addr_port(&a), 29400);
	ck_assert_str_eq(sock_addr_text(&b, text), "[fd77::1]:80");
	ck_assert_str_eq(sock_addr_host(&b, text), "fd77::1");
	ck_assert_uint_eq(sock_addr_port(&b), 80);
}
END_TEST

START_TEST(a_link_local_address_has_the_scope_of_its_host)
{
	char text[SOCK_TEXT_MAX], host[SOCK_HOST_MAX] = "fe80::7";
	struct endpoint ep = {.host = "fe80::1%lo", .port = 80};
	struct sock_addr a;

	ck_assert_int_eq(sock_resolve(&ep, &a, 1, &e), 1);
	ck_assert_str_eq(sock_addr_text(&a, text), "[fe80::1%lo]:80");
	ck_assert_str_eq(sock_addr_scoped(&a, text), "fe80::1%lo");
	ck_assert_str_eq(sock_addr_host(&a, text), "fe80::1");
	/* a scope from another host is refused */
	ck_assert_int_eq(sock_addr_number("fe80::1%lo", 80, &a), 0);
	ck_assert_int_eq(sock_addr_scoped_number("fe80::1%1", 80, &a), 1);
	ck_assert_str_eq(sock_addr_scoped(&a, text), "fe80::1%lo");
	ck_assert_int_eq(sock_addr_scoped_number("fe80::1%none", 80, &a), 0);
	ck_assert_int_eq(sock_addr_scoped_number("fd77::1%lo", 80, &a), 0);
	sock_host_scope(host, "fd77::1");
	ck_assert_str_eq(host, "fe80::7");
	sock_host_scope(host, "fe80::1%lo");
	ck_assert_str_eq(host, "fe80::7%lo");
	sock_host_scope(host, "fe80::1%lo");
	ck_assert_str_eq(host, "fe80::7%lo");
	ck_assert_str_eq(sock_host_unscope(host), "fe80::7");
	/* a link-local address needs an interface */
	snprintf(ep.host, sizeof(ep.host), "fe80::1");
	ck_assert_int_eq(sock_resolve(&ep, &a, 1, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "as in fe80::1%eth0"));
	snprintf(ep.host, sizeof(ep.host), "fe80::1%%none");
	ck_assert_int_eq(sock_resolve(&ep, &a, 1, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "has no interface 'none'"));
}
END_TEST

START_TEST(addresses_are_ordered_as_numbers)
{
	struct sock_addr a = address("10.0.0.9", 1);
	struct sock_addr b = address("10.0.0.10", 0);
	struct sock_addr c = address("::1", 0), d = address("10.0.0.9", 7);

	ck_assert_int_lt(sock_addr_compare(&a, &b), 0);
	ck_assert_int_gt(sock_addr_compare(&b, &a), 0);
	ck_assert_int_eq(sock_addr_compare(&a, &d), 0);
	ck_assert_int_ne(sock_addr_compare(&a, &c), 0);
	ck_assert_int_eq(sock_addr_compare(&a, &c),
			 -sock_addr_compare(&c, &a));
}
END_TEST

START_TEST(loopback_and_local_addresses_are_recognized)
{
	static const struct {
		const char *host;
		int loopback, local;
	} rows[] = {
		{"127.0.0.1", 1, 1}, {"127.9.9.9", 1, 1}, {"::1", 1, 1},
		{"::ffff:127.0.0.1", 1, 1}, {"0.0.0.0", 0, 1}, {"::", 0, 1},
		{"192.0.2.1", 0, 0}, {"2001:db8::1", 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sock_addr a = address(rows[i].host, 0);
		ck_assert_msg(sock_addr_is_loopback(&a) == rows[i].loopback,
			      "%s", rows[i].host);
		ck_assert_msg(sock_addr_is_local(&a) == rows[i].local, "%s",
			      rows[i].host);
	}
}
END_TEST

START_TEST(localhost_and_names_that_do_not_exist)
{
	struct endpoint ep = {"localhost", 5};
	struct sock_addr a[4];
	char text[SOCK_TEXT_MAX];

	ck_assert_int_ge(sock_resolve(&ep, a, 4, &e), 1);
	ck_assert_str_eq(sock_addr_text(&a[0], text), "127.0.0.1:5");
	strcpy(ep.host, "no-such-host.invalid");
	ck_assert_int_lt(sock_resolve(&ep, a, 4, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, "no-such-host.invalid"));
	ck_assert_int_eq(sock_resolve(&ep, a, 0, &e), ERR_ARGUMENT);
}
END_TEST

START_TEST(listens_connects_and_reports_addresses)
{
	struct sock_addr a = address("127.0.0.1", 0);
	char text[SOCK_TEXT_MAX];
	int listener = sock_listen(&a, &e);

	ck_assert_msg(listener >= 0, "%s", e.text);
	ck_assert_uint_ne(sock_addr_port(&a), 0);
	ck_assert(fcntl(listener, F_GETFD) & FD_CLOEXEC);
	ck_assert(fcntl(listener, F_GETFL) & O_NONBLOCK);

	int fd = sock_connect(&a, 5000, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ck_assert(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	close(fd);

	/* the port is in use, and the error names it */
	struct sock_addr same = a;
	ck_assert_int_eq(sock_listen(&same, &e), -EADDRINUSE);
	ck_assert_ptr_nonnull(strstr(e.text, sock_addr_text(&a, text)));

	close(listener);
	ck_assert_int_eq(sock_connect(&a, 5000, &e), -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, text));
	/* the port is free again at once, in spite of its old connection */
	listener = sock_listen(&a, &e);
	ck_assert_msg(listener >= 0, "%s", e.text);
	close(listener);
}
END_TEST

/* A listener with a full queue makes connect wait, as a silent host does. */
START_TEST(a_connect_keeps_its_deadline)
{
	struct sock_addr a = address("127.0.0.1", 0);
	int fds[8], rc = 0, n = 0;
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(s, (struct sockaddr *)&a.ss, a.len), 0);
	ck_assert_int_eq(listen(s, 0), 0);
	ck_assert_int_eq(getsockname(s, (struct sockaddr *)&a.ss, &a.len), 0);
	for (; n < 8 && rc >= 0; n++)
		rc = fds[n] = sock_connect(&a, 50, &e);
	ck_assert_int_eq(rc, -ETIMEDOUT);
	for (int i = 0; i < n - 1; i++)
		close(fds[i]);
	close(s);
}
END_TEST

/* Connects in a network namespace with only one ephemeral port, at which nobody
 * listens: the kernel must also choose it as the source port. */
static void meet_nobody(const char *host)
{
	struct sock_addr a = address(host, 29410);
	int fd;

	for (int i = 0; i < 3; i++)
		if (sock_connect(&a, 5000, &e) != -ECONNREFUSED)
			_exit(1);
	/* a listener can then bind the port at once */
	fd = sock_listen(&a, &e);
	if (fd < 0)
		_exit(2);
	close(fd);
}

START_TEST(a_self_connect_is_detected)
{
	static const char set[] =
		"ip link set lo up && "
		"echo 29410 29410 >/proc/sys/net/ipv4/ip_local_port_range";
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (unshare(CLONE_NEWNET) < 0 || system(set) != 0)
			_exit(200);
		meet_nobody("127.0.0.1");
		meet_nobody("::1");
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 200)
		puts("left out: a network of its own needs root");
	else
		ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_reserved_port_is_for_the_worker_only)
{
	uint16_t port = 0, other = 0;
	int held = sock_reserve_port(&port, &e);
	int second = sock_reserve_port(&other, &e);

	ck_assert_msg(held >= 0 && second >= 0, "%s", e.text);
	ck_assert_uint_ne(port, 0);
	ck_assert_uint_ne(port, other);
	ck_assert(fcntl(held, F_GETFD) & FD_CLOEXEC);

	/* a worker that binds it with SO_REUSEADDR may listen on it */
	struct sock_addr a = address("0.0.0.0", port);
	int listener = sock_listen(&a, &e);
	ck_assert_msg(listener >= 0, "%s", e.text);
	struct sock_addr to = address("127.0.0.1", port);
	int fd = sock_connect(&to, 5000, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	close(fd);
	close(listener);

	/* the kernel gives the reserved port to no other socket */
	a = address("0.0.0.0", port);
	int plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(plain, (struct sockaddr *)&a.ss, a.len), -1);
	ck_assert_int_eq(errno, EADDRINUSE);
	close(plain);
	close(held);
	close(second);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("sock");

	tcase_set_timeout(c, 20);
	tcase_add_checked_fixture(c, reset, NULL);
	tcase_add_test(c, the_address_towards_a_peer);
	tcase_add_test(c, valid_endpoints_are_parsed);
	tcase_add_test(c, invalid_endpoints_are_quoted);
	tcase_add_test(c, a_host_has_at_most_255_bytes);
	tcase_add_test(c, addresses_as_text);
	tcase_add_test(c, a_link_local_address_has_the_scope_of_its_host);
	tcase_add_test(c, addresses_are_ordered_as_numbers);
	tcase_add_test(c, loopback_and_local_addresses_are_recognized);
	tcase_add_test(c, localhost_and_names_that_do_not_exist);
	tcase_add_test(c, listens_connects_and_reports_addresses);
	tcase_add_test(c, a_connect_keeps_its_deadline);
	tcase_add_test(c, a_self_connect_is_detected);
	tcase_add_test(c, a_reserved_port_is_for_the_worker_only);
	return run_case(c);
}

/* test_socket_owner.c: lines of /proc/net/tcp and tcp6, real, truncated and
 * invented; then real sockets, found by sock_diag and in /proc. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/proc_tcp.h"
#include "launcher/worker/socket_owner.h"
#include "tests/unit/run_case.h"

/* ---- a line ---- */

static const char v4_line[] =
	"  12: 0100007F:1F90 0B4E000A:D2C4 01 00000000:00000000 00:00000000 "
	"00000000 65534        0 5318739 2 000000003dfe64e7 20 0 0 10 -1\n";
static const char v6_line[] =
	"   0: 000077FD000000000000000001000000:1F91 "
	"0000000000000000FFFF00000B4E000A:0050 08 00000000:00000001 "
	"02:000AB2E6 00000000  1000        0 77 1 00000000 20 4 30 10 -1\n";
static const char resending_line[] =
	"  14: 0100007F:1F90 0B4E000A:D2C4 01 000101F4:00000000 01:00000A13 "
	"00000007     0        0 79 3 000000002d8e90fe 51200 4 30 1 7\n";
static const char full_line[] = /* the peer's window is full: a probe's timer */
	"  15: 0100007F:1F90 0B4E000A:D2C4 01 000101F4:00000000 04:00000A13 "
	"00000007     0        0 80 3 000000002d8e90fe 51200 4 30 1 7\n";
static const char waiting_line[] =
	"  13: 0100007F:1F90 0100007F:D2C4 06 00000000:00000000 03:000001FA "
	"00000000     0        0 0 3 000000002d8e90fe\n";
static const char heading[] =
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
	"retrnsmt   uid  timeout inode\n";

static int parse(const char *text, size_t len, struct proc_tcp *s)
{
	/* a copy: a sanitizer detects reads beyond the end */
	char *copy = malloc(len ? len : 1);
	int rc;

	memcpy(copy, text, len);
	rc = proc_tcp_parse(SLICE(copy, len), s);
	free(copy);
	return rc;
}

static void has_addr(const struct sock_addr *a, const char *text)
{
	char own[SOCK_TEXT_MAX];

	ck_assert_str_eq(sock_addr_text(a, own), text);
}

START_TEST(lines_of_the_kernel)
{
	struct proc_tcp s;

	ck_assert_int_eq(parse(v4_line, sizeof(v4_line) - 1, &s), 1);
	has_addr(&s.own, "127.0.0.1:8080");
	has_addr(&s.peer, "10.0.78.11:53956");
	ck_assert_uint_eq(s.state, 1);
	ck_assert_uint_eq(s.uid, 65534);
	ck_assert_uint_eq(s.inode, 5318739);

	ck_assert_int_eq(parse(v6_line, sizeof(v6_line) - 1, &s), 1);
	has_addr(&s.own, "[fd77::1]:8081");
	has_addr(&s.peer, "10.0.78.11:80"); /* of ::ffff:0:0/96 */
	ck_assert_uint_eq(s.state, 8);
	ck_assert_uint_eq(s.uid, 1000);
	ck_assert_uint_eq(s.inode, 77);

	ck_assert_int_eq(parse(waiting_line, sizeof(waiting_line) - 1, &s), 1);
	ck_assert_uint_eq(s.state, 6);
	ck_assert_uint_eq(s.inode, 0);
}
END_TEST

START_TEST(retransmissions_are_those_under_way)
{
	struct proc_tcp s;

	ck_assert_int_eq(parse(v4_line, sizeof(v4_line) - 1, &s), 1);
	ck_assert_uint_eq(s.unacked, 0);
	ck_assert_uint_eq(s.resent, 0);
	ck_assert_int_eq(
		parse(resending_line, sizeof(resending_line) - 1, &s), 1);
	ck_assert_uint_eq(s.unacked, 66036);
	ck_assert_uint_eq(s.resent, 7);
	ck_assert_uint_eq(s.inode, 79);
	ck_assert_int_eq(parse(full_line, sizeof(full_line) - 1, &s), 1);
	ck_assert_uint_eq(s.unacked, 66036);
	ck_assert_uint_eq(s.resent, 0);
}
END_TEST

START_TEST(invalid_lines_are_ignored)
{
	static const char *const bad[] = {
		"", "\n", "1", "1:", "1: ", heading,
		"1: 0100007F:1F90",
		"1: 0100007F 0100007F 01 0:0 0:0 0 1 0 1",
		"1: 0100007:1F90 0100007F:D2C4 01 0:0 0:0 0 1 0 1",
		"1: 0100007F0:1F90 0100007F:D2C4 01 0:0 0:0 0 1 0 1",
		"1: 0100007F:1F9 0100007F:D2C4 01 0:0 0:0 0 1 0 1",
		"1: 0100007F:1F90 0100007F:D2C4 1 0:0 0:0 0 1 0 1",
		"1: 0100007F:1F90 0100007F:D2C4 01 0:0 0:0 0 -1 0 1",
		"1: 0100007F:1F90 0100007F:D2C4 01 0:0 0:0 0 4294967296 0 1",
		"1: 0100007F:1F90 0100007F:D2C4 01 0:0 0:0 0 1 0 x",
	};
	struct proc_tcp s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_msg(!parse(bad[i], strlen(bad[i]), &s), "%s", bad[i]);
	/* truncated before the inode; a truncated inode cannot be detected */
	for (size_t n = 0; v4_line + n < strstr(v4_line, "5318739"); n++)
		ck_assert_int_eq(parse(v4_line, n, &s), 0);
}
END_TEST

/* ---- real sockets ---- */

struct pair {
	int listener, ours, theirs;
	struct sock_addr own, peer; /* of `ours` */
};

static void name(int fd, int peer, struct sock_addr *a)
{
	a->len = sizeof(a->ss);
	ck_assert_int_eq((peer ? getpeername : getsockname)(
				 fd, (struct sockaddr *)&a->ss, &a->len), 0);
}

static int can(const char *host)
{
	struct sock_addr a;
	int fd;

	ck_assert(sock_addr_number(host, 0, &a));
	fd = sock_listen(&a, NULL);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void connect_at(struct pair *p, const char *at, const char *to)
{
	struct sock_addr a, b;

	ck_assert(sock_addr_number(at, 0, &a));
	p->listener = sock_listen(&a, NULL);
	ck_assert_int_ge(p->listener, 0);
	ck_assert(sock_addr_number(to, sock_addr_port(&a), &b));
	p->ours = sock_connect(&b, 1000, NULL);
	ck_assert_int_ge(p->ours, 0);
	p->theirs = accept(p->listener, NULL, NULL);
	ck_assert_int_ge(p->theirs, 0);
	name(p->ours, 0, &p->own);
	name(p->ours, 1, &p->peer);
	sock_addr_unmap(&p->own);
	sock_addr_unmap(&p->peer);
}

static void drop(struct pair *p)
{
	close(p->listener);
	close(p->ours);
	close(p->theirs);
}

/* Checks the result of sock_diag and of /proc. */
static void is_found(const struct sock_addr *own, const struct sock_addr *peer,
		     int found, uid_t uid)
{
	struct socket_finder ways[] = {{.no_diag = 1}, {.no_diag = 0}};
	struct err e = ERR_INIT;

	for (int i = 0; i < 2; i++) {
		struct socket_whose whose = {.uid = 4711};

		ck_assert_int_eq(socket_owner(&ways[i], own, peer, &whose,
					      &e), found);
		if (found == SOCKET_OWNED)
			ck_assert_uint_eq(whose.uid, uid);
	}
}

static void is_ours(const char *at, const char *to)
{
	struct pair p;

	connect_at(&p, at, to);
	is_found(&p.own, &p.peer, SOCKET_OWNED, geteuid());
	is_found(&p.peer, &p.own, SOCKET_OWNED, geteuid());
	shutdown(p.ours, SHUT_WR);
	is_found(&p.own, &p.peer, SOCKET_OWNED, geteuid());
	drop(&p);
}

START_TEST(a_socket_is_ours)
{
	is_ours("127.0.0.1", "127.0.0.1");
	is_ours("127.0.0.1", "::ffff:127.0.0.1");
	if (can("::1"))
		is_ours("::1", "::1");
}
END_TEST

START_TEST(its_inode_is_its_descriptors)
{
	struct socket_finder ways[] = {{.no_diag = 1}, {.no_diag = 0}};
	struct stat st;
	struct pair p;

	connect_at(&p, "127.0.0.1", "127.0.0.1");
	ck_assert_int_eq(fstat(p.ours, &st), 0);
	for (int i = 0; i < 2; i++) {
		struct socket_whose whose = {.inode = 0};

		ck_assert_int_eq(socket_owner(&ways[i], &p.own, &p.peer, &whose,
					      NULL), SOCKET_OWNED);
		ck_assert_uint_eq(whose.inode, st.st_ino);
	}
	drop(&p);
}
END_TEST

START_TEST(a_listener_is_not_a_connection)
{
	struct pair p;

	connect_at(&p, "127.0.0.1", "127.0.0.1");
	sock_addr_set_port(&p.peer, 9);
	is_found(&p.own, &p.peer, SOCKET_NONE, 0);
	/* only a listener has that port */
	name(p.listener, 0, &p.own);
	is_found(&p.own, &p.peer, SOCKET_NONE, 0);
	drop(&p);
}
END_TEST

START_TEST(a_closed_socket_has_no_owner)
{
	struct pair p;
	char byte;

	connect_at(&p, "127.0.0.1", "127.0.0.1");
	close(p.ours);
	/* the peer has closed: its socket waits for our close */
	ck_assert_int_eq(read(p.theirs, &byte, 1), 0);
	is_found(&p.own, &p.peer, SOCKET_CLOSED, 0);
	p.ours = dup(p.theirs);
	drop(&p);
}
END_TEST

START_TEST(another_users_socket_has_that_user)
{
	enum { NOBODY = 65534 };
	struct pair p;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		return;
	pid = fork();
	if (pid == 0) {
		if (setuid(NOBODY) < 0)
			_exit(2);
		connect_at(&p, "127.0.0.1", "127.0.0.1");
		is_found(&p.own, &p.peer, SOCKET_OWNED, NOBODY);
		drop(&p);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("socket_owner");

	tcase_add_test(t, lines_of_the_kernel);
	tcase_add_test(t, retransmissions_are_those_under_way);
	tcase_add_test(t, invalid_lines_are_ignored);
	tcase_add_test(t, a_socket_is_ours);
	tcase_add_test(t, its_inode_is_its_descriptors);
	tcase_add_test(t, a_listener_is_not_a_connection);
	tcase_add_test(t, a_closed_socket_has_no_owner);
	tcase_add_test(t, another_users_socket_has_that_user);
	return run_case(t);
}

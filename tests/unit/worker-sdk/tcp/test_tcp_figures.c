/* test_tcp_figures.c: what the kernel's figures of a connection say about the
 * network, and the figures of a real connection. */
#include <arpa/inet.h>
#include <check.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/tcp/tcp_figures.h"

enum { BETWEEN = 5000 };

struct link_case {
	struct ddp__figures data, small;
	uint32_t came;
	int no_small;
	enum ddp__verdict verdict;
	const char *text;
	struct ddp__loss before; /* .data's sent and resent are the sums */
};

/* .data of a connection on which `unacked` bytes wait for an answer. */
#define STUCK(bytes, tries) STUCK_AFTER(bytes, tries, tries, 1000)
#define STUCK_AFTER(bytes, tries, of_all, segments)                           \
	{.unacked = (bytes), .stuck = ((bytes) + 1447) / 1448,                 \
	 .retries = (tries), .resent = (of_all), .sent = (segments),           \
	 .rtt_us = 250, .mss = 1448, .mtu = 1500, .quiet_ms = 9000}
/* .data of which n segments have passed others that are stuck. */
#define PASSED(n, others)                                                     \
	{.unacked = 72400, .stuck = (others), .beyond = (n), .retries = 3,     \
	 .resent = 3, .sent = 1000, .mss = 1448, .mtu = 1500, .quiet_ms = 100}
/* .small of one on which the probe was acknowledged, or was not. */
#define PASSES {.rtt_us = 300, .quiet_ms = BETWEEN - 1}
#define FAILS {.unacked = 48, .retries = 4, .quiet_ms = 9000}

static const struct link_case cases[] = {
	/* a cable is cut, or a firewall drops everything */
	{STUCK(65160, 7), FAILS, 0, 0, DDP__LINK_SILENT,
	 "65160 bytes are not acknowledged after 7 retransmissions, and no "
	 "packet comes back: the host or the network is down, or a firewall "
	 "drops the packets (round trip 0.2 ms before, MTU 1500)"},
	{STUCK(48, 4), PASSES, 0, 1, DDP__LINK_SILENT, NULL},
	/* a job of hours on a good network: 20 of 1000000 segments resent */
	{STUCK_AFTER(65160, 7, 27, 1000000), FAILS, 0, 0,
	 DDP__LINK_SILENT, NULL},
	/* two losses may be a hiccup */
	{STUCK(65160, 2), FAILS, 0, 0, DDP__LINK_UNKNOWN, ""},
	/* the peer's own packets, and its retransmissions, arrive */
	{STUCK(65160, 6), FAILS, 3, 0, DDP__LINK_ONE_WAY,
	 "65160 bytes are not acknowledged after 6 retransmissions, while "
	 "packets from there still arrive: the network loses those in this "
	 "direction (round trip 0.2 ms before, MTU 1500)"},
	{STUCK(48, 4), PASSES, 3, 1, DDP__LINK_ONE_WAY, NULL},
	/* the probe arrives, full packets do not */
	{STUCK(65160, 6), PASSES, 1, 0, DDP__LINK_MTU,
	 "65160 bytes are not acknowledged after 6 retransmissions, while "
	 "short packets pass: something between the hosts drops packets of "
	 "1500 bytes; give both hosts the MTU of the network between them "
	 "(round trip 0.2 ms before, MTU 1500)"},
	/* an answer from before the probe proves nothing */
	{STUCK(65160, 6), {.quiet_ms = BETWEEN + 100}, 1, 0, DDP__LINK_ONE_WAY,
	 NULL},
	/* a third of the segments is lost */
	{{.unacked = 14480, .resent = 31, .sent = 100, .rtt_us = 41000,
	  .mss = 1448, .mtu = 1500, .quiet_ms = 100},
	 PASSES, 40, 0, DDP__LINK_LOSSY,
	 "the network loses packets: 31 of 100 segments were sent again, and "
	 "14480 bytes are not acknowledged (round trip 41.0 ms, MTU 1500)"},
	{STUCK_AFTER(14480, 3, 34, 100), PASSES, 40, 0,
	 DDP__LINK_LOSSY, NULL, .before = {90, 31}},
	{STUCK_AFTER(14480, 3, 34, 100), FAILS, 0, 0, DDP__LINK_LOSSY, NULL,
	 .before = {90, 31}},
	{STUCK_AFTER(14480, 3, 74, 100), PASSES, 40, 0,
	 DDP__LINK_LOSSY, NULL},
	/* all that is stuck was sent again four times, as BBR does */
	{STUCK_AFTER(314304, 3, 871, 4000), PASSES, 40, 0, DDP__LINK_MTU, NULL},
	{STUCK_AFTER(314304, 3, 871, 4000), FAILS, 0, 0, DDP__LINK_SILENT,
	 NULL},
	/* the first segment is stuck by chance, others pass it */
	{{.unacked = 72400, .stuck = 28, .beyond = 22, .retries = 3,
	  .resent = 60, .sent = 1000, .rtt_us = 250, .mss = 1448, .mtu = 1500,
	  .quiet_ms = 100},
	 PASSES, 40, 0, DDP__LINK_LOSSY,
	 "the network loses packets: 28 of 50 segments were sent again, and "
	 "72400 bytes are not acknowledged (round trip 0.2 ms, MTU 1500)"},
	/* two short segments pass it */
	{{.unacked = 72400, .stuck = 48, .beyond = 2, .retries = 3,
	  .resent = 60, .sent = 1000, .rtt_us = 250, .mss = 1448, .mtu = 1500,
	  .quiet_ms = 100},
	 PASSES, 40, 0, DDP__LINK_MTU, NULL},
	/* all arrived in the end, with many losses in this call */
	{{.resent = 31, .sent = 1000, .mss = 1448, .mtu = 1500}, PASSES, 40, 0,
	 DDP__LINK_LOSSY, NULL, .before = {900, 0}},
	/* it lost packets once, but has no data to send */
	{{.resent = 31, .sent = 100}, PASSES, 40, 0, DDP__LINK_WORKS, NULL,
	 .before = {100, 31}},
	/* the peer's window is closed */
	{{.unsent = 400000, .sent = 90, .rtt_us = 250, .mss = 1448,
	  .quiet_ms = 100},
	 PASSES, 3, 0, DDP__LINK_UNREAD,
	 "the network works (round trip 0.2 ms), but the process there does "
	 "not read: 400000 bytes wait here"},
	/* this kernel has not sent it yet */
	{{.unsent = 96, .sent = 90, .rtt_us = 250, .mss = 1448,
	  .window = 65535, .quiet_ms = 100},
	 PASSES, 3, 0, DDP__LINK_WORKS, NULL},
	/* the peer is late */
	{{.sent = 90, .rtt_us = 250, .quiet_ms = 9000}, PASSES, 1, 0,
	 DDP__LINK_WORKS,
	 "the network works: everything sent is acknowledged (round trip 0.3 "
	 "ms)"},
	/* losses: at least 5, and 3 % of what was sent */
	{{.resent = 5, .sent = 166}, PASSES, 40, 0, DDP__LINK_LOSSY, NULL},
	{{.resent = 5, .sent = 167}, PASSES, 40, 0, DDP__LINK_WORKS, NULL},
	{{.resent = 4, .sent = 10}, PASSES, 40, 0, DDP__LINK_WORKS, NULL},
	/* what passes data that is stuck: at least 5, and a quarter */
	{PASSED(5, 23), PASSES, 40, 0, DDP__LINK_LOSSY, NULL},
	{PASSED(5, 24), PASSES, 40, 0, DDP__LINK_MTU, NULL},
	{PASSED(4, 4), PASSES, 40, 0, DDP__LINK_MTU, NULL},
	/* packets of 576 bytes pass everywhere, of 577 they may not */
	{{.unacked = 577, .retries = 3, .mss = 577}, PASSES, 1, 0,
	 DDP__LINK_MTU, NULL},
	{{.unacked = 576, .retries = 3, .mss = 577}, PASSES, 1, 0,
	 DDP__LINK_UNKNOWN, NULL},
	{{.unacked = 577, .retries = 3, .mss = 576}, PASSES, 1, 0,
	 DDP__LINK_UNKNOWN, NULL},
	/* the probe's answer, within a tick of the kernel; all of it */
	{{.sent = 90}, {.quiet_ms = BETWEEN + 20}, 1, 0, DDP__LINK_WORKS, NULL},
	{{.sent = 90}, {.quiet_ms = BETWEEN + 21}, 1, 0, DDP__LINK_UNKNOWN,
	 NULL},
	{{.sent = 90}, {.unsent = 1}, 1, 0, DDP__LINK_UNKNOWN, NULL},
	/* a window of one segment is open */
	{{.unsent = 96, .mss = 1448, .window = 1447}, PASSES, 3, 0,
	 DDP__LINK_UNREAD, NULL},
	{{.unsent = 96, .mss = 1448, .window = 1448}, PASSES, 3, 0,
	 DDP__LINK_WORKS, NULL},
	{{.unsent = 96, .unacked = 1, .mss = 1448}, PASSES, 3, 0,
	 DDP__LINK_UNKNOWN, NULL},
	/* nothing was sent: nothing is known */
	{{.quiet_ms = 9000}, {.quiet_ms = 9000}, 0, 0, DDP__LINK_UNKNOWN, ""},
};

START_TEST(figures_tell_what_is_wrong)
{
	const struct link_case *c = &cases[_i];
	struct ddp__link_look l = {
		.data = &c->data,
		.small = c->no_small ? NULL : &c->small,
		.came = c->came,
		.between_ms = BETWEEN,
		.before = c->before,
		.since = ddp__loss_since(&c->before, c->data.sent,
					 c->data.resent,
					 ddp__figures_resent_stuck(&c->data)),
	};
	enum ddp__verdict v = ddp__link_verdict(&l);
	char text[512];

	ck_assert_int_eq(v, c->verdict);
	if (c->text)
		ck_assert_str_eq(ddp__link_text(v, &l, text, sizeof(text)),
				 c->text);
	ck_assert_int_eq(ddp__link_is_bad(v), v == DDP__LINK_LOSSY ||
						      v == DDP__LINK_MTU ||
						      v == DDP__LINK_ONE_WAY ||
						      v == DDP__LINK_SILENT);
}

/* Two ends of a connection over loopback. */
static void connect_pair(int fd[2])
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	ck_assert_int_eq(bind(l, (struct sockaddr *)&a, len), 0);
	ck_assert_int_eq(listen(l, 1), 0);
	ck_assert_int_eq(getsockname(l, (struct sockaddr *)&a, &len), 0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert_int_eq(connect(fd[0], (struct sockaddr *)&a, len), 0);
	fd[1] = accept(l, NULL, NULL);
	ck_assert_int_ge(fd[1], 0);
	close(l);
}

/* Into a structure that had other values. */
static struct ddp__figures read_figures(int fd)
{
	struct ddp__figures f;

	memset(&f, 0xff, sizeof(f));
	ck_assert_int_eq(ddp__figures_read(fd, &f), 0);
	return f;
}

START_TEST(figures_count_what_a_connection_carries)
{
	struct ddp__figures before, after;
	struct pollfd p = {.events = POLLIN};
	int fd[2];

	if (emulator_lacks("TCP_INFO"))
		return;
	connect_pair(fd);
	before = read_figures(fd[0]);
	ck_assert_uint_eq(before.unsent, 0);
	ck_assert_uint_eq(before.unacked, 0);
	ck_assert_uint_eq(before.sent, 0);
	ck_assert_uint_eq(before.resent, 0);
	ck_assert_uint_eq(before.retries, 0);
	ck_assert_uint_eq(before.stuck, 0);
	ck_assert_uint_eq(before.beyond, 0);
	ck_assert_uint_lt(before.rtt_us, UINT32_MAX);
	ck_assert_uint_lt(before.window, UINT32_MAX);
	ck_assert_uint_lt(before.quiet_ms, UINT32_MAX);
	ck_assert_uint_le(before.mss, before.mtu);
	before = read_figures(fd[1]);
	ck_assert_int_eq(send(fd[0], "x", 1, 0), 1);
	p.fd = fd[1];
	ck_assert_int_eq(poll(&p, 1, -1), 1);
	after = read_figures(fd[1]);
	ck_assert_uint_gt(after.came, before.came);
	ck_assert_uint_lt(after.came, UINT32_MAX);
	after = read_figures(fd[0]);
	ck_assert_uint_ge(after.sent, 1);
	ck_assert_uint_lt(after.sent, UINT32_MAX);
	close(fd[0]);
	close(fd[1]);
}

START_TEST(a_peer_that_does_not_read_is_recognized)
{
	static char block[1 << 16];
	struct ddp__figures f;
	struct ddp__link_look l = {.data = &f, .came = 1};
	char ends[128];
	int fd[2], before, queued;

	if (emulator_lacks("TCP_INFO"))
		return;
	connect_pair(fd);
	while (send(fd[0], block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	do { /* until the last segments have filled its kernel's buffer */
		ck_assert_int_eq(ioctl(fd[0], SIOCOUTQ, &before), 0);
		f = read_figures(fd[0]);
		ck_assert_int_eq(ioctl(fd[0], SIOCOUTQ, &queued), 0);
	} while (before != queued || ddp__link_verdict(&l) != DDP__LINK_UNREAD);
	ck_assert_uint_eq(f.unsent, queued);
	ck_assert_uint_gt(f.mtu, 1000);
	ck_assert_ptr_nonnull(
		strstr(ddp__link_ends(fd[0], ends, sizeof(ends)),
		       " -> 127.0.0.1:"));
	close(fd[0]);
	close(fd[1]);
	ck_assert_int_eq(ddp__figures_read(fd[0], &f), -1);
}

int main(void)
{
	TCase *c = tcase_create("figures");

	tcase_add_loop_test(c, figures_tell_what_is_wrong, 0,
			    sizeof(cases) / sizeof(*cases));
	tcase_add_test(c, figures_count_what_a_connection_carries);
	tcase_add_test(c, a_peer_that_does_not_read_is_recognized);
	return run_case(c);
}

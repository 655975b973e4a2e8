/* tcp_waiting.h: a host that waits in a step, on a clock and with figures of
 * its connections that the test sets. */
#ifndef TESTS_TCP_WAITING_H
#define TESTS_TCP_WAITING_H

#include <string.h>
#include <sys/socket.h>

#include "tests/unit/run_case.h"
#include "tests/unit/stopped_clock.h"
#include "tests/unit/worker-sdk/tcp/tcp_group.h"
#include "worker-sdk/tcp/tcp_steps.h"

enum {
	HOSTS = 3,
	ME = 1, /* between the others */
	LINKS = 3,
	ALL = HOSTS * LINKS,
	STREAMS = 4,
	TIMEOUT_MS = 8000
};

#define NS UINT64_C(1000000) /* a millisecond */

static const struct ddp__call call = {DDP__ALL_REDUCE, DDP_I32, DDP_SUM, 0,
				      1024, 5};

/* Host ME. Each array has a host, or a stream, before its first and behind its
 * last that nothing may touch. */
static struct {
	struct ddp__tcp t;
	struct ddp__schedule s;
	struct ddp__figures figures[ALL];
	int fails[ALL]; /* figures cannot be read */
	int fd[LINKS + ALL + LINKS], far[LINKS + ALL + LINKS];
	struct ddp__secure *secure[LINKS + ALL + LINKS];
	struct ddp__tcp_wait waits[1 + HOSTS + 1];
	struct ddp__stream streams[1 + STREAMS + 1];
	struct err e;
} w;

static int leaders[HOSTS] = {0, 10, 20};

int __wrap_ddp__figures_read(int fd, struct ddp__figures *f);
char *__wrap_ddp__link_ends(int fd, char *out, size_t size);

static inline int link_of(int fd)
{
	for (int l = 0; l < ALL; l++)
		if (l / LINKS != ME && w.t.fd[l] == fd)
			return l;
	ck_abort_msg("%d is no connection with another host", fd);
	return 0;
}

int __wrap_ddp__figures_read(int fd, struct ddp__figures *f)
{
	int l = link_of(fd);

	if (w.fails[l])
		return -1;
	*f = w.figures[l];
	return 0;
}

char *__wrap_ddp__link_ends(int fd, char *out, size_t size)
{
	snprintf(out, size, "link %d", link_of(fd));
	return out;
}

static inline uint64_t now(void)
{
	return (uint64_t)now_ms * NS;
}

/* Every connection works; no two have equal figures. */
static inline void set_figures(void)
{
	for (int l = 0; l < ALL; l++)
		w.figures[l] = (struct ddp__figures){.sent = 100u << l,
						     .resent = 1u << l,
						     .came = 7u << l,
						     .rtt_us = 1000u *
							       ((unsigned)l +
								1),
						     .mss = 1448,
						     .mtu = 1500,
						     .window = 65536};
}

static inline uint32_t sum_sent(int host)
{
	return 700u << host * LINKS;
}

static inline uint32_t sum_resent(int host)
{
	return 7u << host * LINKS;
}

static inline uint32_t sum_came(int host)
{
	return 49u << host * LINKS;
}

static inline void set_up(void)
{
	struct ddp__tcp *t = &w.t;
	int pair[2];

	for (int i = 0; i < LINKS + ALL + LINKS; i++) {
		w.fd[i] = w.far[i] = -1;
		if (i / LINKS == 1 + ME)
			continue;
		ck_assert_int_eq(socketpair(AF_UNIX,
					    SOCK_STREAM | SOCK_NONBLOCK, 0,
					    pair), 0);
		w.fd[i] = pair[0];
		w.far[i] = pair[1];
	}
	*t = (struct ddp__tcp){.me = ME,
			       .n = HOSTS,
			       .rails = LINKS - 1,
			       .links = LINKS,
			       .fd = w.fd + LINKS,
			       .secure = w.secure + LINKS,
			       .leaders = leaders,
			       .waits = w.waits + 1,
			       .streams = w.streams + 1,
			       .timeout_ms = TIMEOUT_MS,
			       .peers = &peers,
			       .schedule = &w.s};
	w.s = (struct ddp__schedule){.endpoint = t, .call = call, .turn = 1};
	w.e = (struct err)ERR_INIT;
	set_figures();
	for (int h = 0; h < HOSTS; h++)
		if (h != ME)
			t->waits[h] = (struct ddp__tcp_wait){
				.came = sum_came(h),
				.before = {sum_sent(h), sum_resent(h)}};
	/* in the wait under test, as long as it was not looked at */
	t->probed_ns = t->judged_ns = now() - 1000 * NS;
}

/* A step's streams, as in "<1 >8": receives on link 1, sends on link 8. Those
 * around them do the same as `around`. */
static inline void set_streams(const char *spec, const char *around)
{
	struct ddp__stream *all = w.streams;

	w.t.busy = 0;
	for (const char *s = spec; *s; s += s[2] ? 3 : 2)
		w.t.streams[w.t.busy++] = (struct ddp__stream){
			.link = s[1] - '0', .sends = *s == '>'};
	for (int i = 0; i < 1 + STREAMS + 1; i++)
		if (i == 0 || i > w.t.busy)
			all[i] = (struct ddp__stream){
				.link = around[1] - '0',
				.sends = *around == '>'};
}

static inline int check_at(long waited_ms)
{
	return ddp__tcp_step_check(&w.t, (uint64_t)waited_ms * NS, &w.e);
}

/* Takes the notices that were sent to the host: those that this one waits, and
 * the last about the network. */
struct sent {
	int waits, network;
	char text[DDP__TCP_NETWORK_TEXT];
};

static inline struct sent take_sent(int host)
{
	int fd = w.far[LINKS + host * LINKS];
	struct sent sent = {0};
	struct ddp__frame f;

	while (recv(fd, &f, sizeof(f), 0) == sizeof(f)) {
		if (ddp__frame_is(&f, DDP__FRAME_WAITS)) {
			ck_assert_uint_eq(f.call, ddp__call_pack(&call));
			sent.waits++;
			continue;
		}
		ck_assert(ddp__frame_is(&f, DDP__FRAME_NETWORK));
		ck_assert_uint_lt(f.size, sizeof(sent.text));
		ck_assert_int_eq(recv(fd, sent.text, f.size, 0),
				 (ssize_t)f.size);
		sent.text[f.size] = '\0';
		sent.network++;
	}
	return sent;
}

static inline void expect_waits(int to_first, int to_last)
{
	ck_assert_int_eq(take_sent(0).waits, to_first);
	ck_assert_int_eq(take_sent(2).waits, to_last);
}

#define COUNT(a) (int)(sizeof(a) / sizeof(*(a)))

#endif

/* pair.c: requests of 16 bytes, in host byte order, which is that of all nodes:
 * what, a number, and, for transfers, bytes after it. */
#include "worker-sdk/check/pair.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

enum {
	BLOCK = 256 << 10,
	FIRST_BYTES = 64 << 10, /* to learn how many bytes fit the time */
};

/* A listener refuses to send more than this at once. */
#define BYTES_MAX ((uint64_t)4 << 30)

enum pair_what {
	PAIR_PING = 0x70696e67, /* the listener answers with its time */
	PAIR_TAKE = 0x74616b65, /* `number` bytes follow; the listener
				 * answers */
	PAIR_GIVE = 0x67697665, /* the listener answers with `number` bytes */
	PAIR_BYE = 0x62796521,
};

struct pair_message {
	uint64_t what, number;
};

/* ---- bytes ---- */

static int pair_wait(int fd, short events, int ms)
{
	struct pollfd p = {fd, events, 0};
	int rc;

	do {
		rc = poll(&p, 1, ms);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : rc == 0 ? -ETIMEDOUT : 0;
}

static int pair_send(int fd, const void *data, size_t size, int silence_ms)
{
	const char *at = data;
	int rc = 0;

	while (size && rc == 0) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			size -= (size_t)n;
		} else if (errno == EAGAIN) {
			rc = pair_wait(fd, POLLOUT, silence_ms);
		} else if (errno != EINTR) {
			rc = -errno;
		}
	}
	return rc;
}

static int pair_receive(int fd, void *data, size_t size, int silence_ms)
{
	char *at = data;
	int rc = 0;

	while (size && rc == 0) {
		ssize_t n = recv(fd, at, size, MSG_DONTWAIT);

		if (n > 0) {
			at += n;
			size -= (size_t)n;
		} else if (n == 0) {
			rc = -EPIPE;
		} else if (errno == EAGAIN) {
			rc = pair_wait(fd, POLLIN, silence_ms);
		} else if (errno != EINTR) {
			rc = -errno;
		}
	}
	return rc;
}

static int pair_send_bytes(int fd, char *block, uint64_t bytes, int silence_ms)
{
	int rc = 0;

	for (uint64_t n; bytes && rc == 0; bytes -= n) {
		n = bytes < BLOCK ? bytes : BLOCK;
		rc = pair_send(fd, block, n, silence_ms);
	}
	return rc;
}

static int pair_receive_bytes(int fd, char *block, uint64_t bytes,
			      int silence_ms)
{
	int rc = 0;

	for (uint64_t n; bytes && rc == 0; bytes -= n) {
		n = bytes < BLOCK ? bytes : BLOCK;
		rc = pair_receive(fd, block, n, silence_ms);
	}
	return rc;
}

static uint64_t pair_wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the caller ---- */

static int pair_ask(int fd, uint64_t what, uint64_t number,
		    const struct pair_options *o)
{
	struct pair_message m = {what, number};

	return pair_send(fd, &m, sizeof(m), o->silence_ms);
}

static int pair_ping(int fd, const struct pair_options *o,
		     struct pair_result *r)
{
	uint64_t before = pair_wall_ns(), start = clock_ns(), took;
	struct pair_message m;
	int rc = pair_ask(fd, PAIR_PING, 0, o);

	if (rc == 0)
		rc = pair_receive(fd, &m, sizeof(m), o->silence_ms);
	if (rc < 0)
		return rc;
	if (m.what != PAIR_PING)
		return ERR_PROTOCOL;
	took = clock_ns() - start;
	if ((double)took / 1e3 >= r->rtt_us)
		return 0;
	/* the fastest round trip estimates the offset best */
	r->rtt_us = (double)took / 1e3;
	r->clock_ms = (double)((int64_t)(m.number - before) -
			       (int64_t)(took / 2)) / 1e6;
	return 0;
}

/* Sends or requests that many bytes. Returns the nanoseconds, or an error. */
static int64_t pair_transfer(int fd, char *block, uint64_t what, uint64_t bytes,
			     const struct pair_options *o)
{
	uint64_t start = clock_ns();
	struct pair_message m;
	int rc = pair_ask(fd, what, bytes, o);

	if (rc == 0 && what == PAIR_TAKE)
		rc = pair_send_bytes(fd, block, bytes, o->silence_ms);
	if (rc == 0 && what == PAIR_TAKE)
		rc = pair_receive(fd, &m, sizeof(m), o->silence_ms);
	if (rc == 0 && what == PAIR_GIVE)
		rc = pair_receive_bytes(fd, block, bytes, o->silence_ms);
	return rc < 0 ? rc : (int64_t)(clock_ns() - start);
}

/* Transfers a few bytes first, then as many as take about the wanted time. The
 * round trip of the request is not part of the transfer. */
static int pair_measure_one_way(int fd, char *block, uint64_t what,
				const struct pair_options *o, double rtt_us,
				double *mbytes_s)
{
	int64_t ns = pair_transfer(fd, block, what, FIRST_BYTES, o);
	double wanted, bytes;

	if (ns < 0)
		return (int)ns;
	wanted = FIRST_BYTES * (o->transfer_ms * 1e6) / (double)(ns + 1);
	bytes = wanted < (double)o->transfer_max ? wanted
						 : (double)o->transfer_max;
	if (bytes < FIRST_BYTES)
		bytes = FIRST_BYTES;
	ns = pair_transfer(fd, block, what, (uint64_t)bytes, o);
	if (ns < 0)
		return (int)ns;
	if ((double)ns > 2 * rtt_us * 1e3)
		ns -= (int64_t)(rtt_us * 1e3);
	*mbytes_s = bytes * 1e3 / (double)(ns + 1);
	return 0;
}

int pair_measure(int fd, const struct pair_options *o, struct pair_result *r)
{
	char *block = calloc(1, BLOCK);
	int rc = block ? 0 : -ENOMEM;

	*r = (struct pair_result){.rtt_us = 1e12};
	for (int i = 0; i < o->pings && rc == 0; i++)
		rc = pair_ping(fd, o, r);
	if (rc == 0)
		rc = pair_measure_one_way(fd, block, PAIR_TAKE, o, r->rtt_us,
					  &r->out_mbytes_s);
	if (rc == 0)
		rc = pair_measure_one_way(fd, block, PAIR_GIVE, o, r->rtt_us,
					  &r->in_mbytes_s);
	if (rc == 0)
		rc = pair_ask(fd, PAIR_BYE, 0, o);
	free(block);
	return rc;
}

/* ---- the listener ---- */

static int pair_answer(int fd, char *block, const struct pair_message *m,
		       const struct pair_options *o)
{
	int rc;

	if (m->what == PAIR_PING)
		return pair_ask(fd, PAIR_PING, pair_wall_ns(), o);
	if (m->number > BYTES_MAX)
		return ERR_PROTOCOL;
	if (m->what == PAIR_GIVE)
		return pair_send_bytes(fd, block, m->number, o->silence_ms);
	if (m->what != PAIR_TAKE)
		return ERR_PROTOCOL;
	rc = pair_receive_bytes(fd, block, m->number, o->silence_ms);
	return rc < 0 ? rc : pair_ask(fd, PAIR_TAKE, m->number, o);
}

int pair_serve(int fd, const struct pair_options *o, int first_ms)
{
	struct pair_message m = {.what = 0};
	char *block = calloc(1, BLOCK);
	int rc = block ? 0 : -ENOMEM, wait_ms = first_ms;

	while (rc == 0) {
		rc = pair_receive(fd, &m, sizeof(m), wait_ms);
		wait_ms = o->silence_ms;
		if (rc == 0 && m.what == PAIR_BYE)
			break;
		if (rc == 0)
			rc = pair_answer(fd, block, &m, o);
	}
	free(block);
	return rc;
}

/* ---- which nodes measure together ---- */

/* An odd number of nodes gets an imaginary one. */
static int round_robin_even(int n)
{
	return n + n % 2;
}

int round_robin_rounds(int n)
{
	return n < 2 ? 0 : round_robin_even(n) - 1;
}

int round_robin_partner(int n, int round, int me)
{
	int last = round_robin_even(n) - 1, partner;

	if (me == last)
		return round;
	partner = ((2 * round - me) % last + last) % last;
	if (partner == me)
		partner = last;
	return partner < n ? partner : -1;
}

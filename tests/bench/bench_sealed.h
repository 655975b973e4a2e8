/* bench_sealed.h: sends and receives bytes for bench_store, in records if the
 * connection has keys, and measures libsodium's own time for them. */
#ifndef TESTS_BENCH_SEALED_H
#define TESTS_BENCH_SEALED_H

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/programs/peers/rdzv_raw.h"

static inline void fail(const char *what)
{
	fprintf(stderr, "bench_store: %s: %s\n", what, strerror(errno));
	exit(1);
}

static inline double cpu_seconds(pid_t pid)
{
	struct timespec t = {0, 0};
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		fail("the server's CPU time");
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void send_all(int fd, const void *p, size_t n)
{
	if (send(fd, p, n, MSG_NOSIGNAL) != (ssize_t)n)
		fail("sending");
}

static inline void send_text(int fd, const char *text, size_t n)
{
	static struct buf sealed = BUF_INIT(1 << 20);

	if (!raw_lines[fd].cipher.on) {
		send_all(fd, text, n);
		return;
	}
	buf_reset(&sealed);
	cipher_seal(&raw_lines[fd].cipher.out, SLICE(text, n), &sealed);
	send_all(fd, sealed.data, sealed.len);
}

static inline ssize_t read_text(int fd, char *to, size_t size)
{
	static struct buf in = BUF_INIT(1 << 20);

	if (!raw_lines[fd].cipher.on)
		return read(fd, to, size);
	buf_reset(&in);
	while (!in.len)
		if (!raw_read(fd, &in))
			return 0;
	return (ssize_t)in.len;
}

/* What it takes to open n requests of `in` bytes in all, and to seal their
 * replies of `out`. */
static inline void print_sodium(size_t in, size_t out, int n)
{
	enum { TIMES = 2000 };
	struct buf sealed = BUF_INIT(CIPHER_SEALED_MAX(in + out) + 64);
	char *text = calloc(1, in + out);
	struct proof key = {{1}};
	struct cipher c;
	double began;

	cipher_start(&c, CIPHER_CLIENT, &key, &key);
	began = cpu_seconds(getpid());
	for (int i = 0; i < TIMES && text; i++) {
		buf_reset(&sealed);
		cipher_seal(&c.out, SLICE(text, in), &sealed);
		cipher_seal(&c.out, SLICE(text, out), &sealed);
	}
	printf("  libsodium's own: %.3f us/op\n",
	       (cpu_seconds(getpid()) - began) * 1e6 / TIMES / n);
	free(text);
	buf_release(&sealed);
}

#endif

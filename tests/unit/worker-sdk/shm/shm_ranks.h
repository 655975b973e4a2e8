/* shm_ranks.h: forked processes as the ranks 0, 10, 20 ... of one host, over
 * one segment, for test_shm*.c. */
#ifndef TESTS_SHM_RANKS_H
#define TESTS_SHM_RANKS_H

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/forked.h"
#include "worker-sdk/shm/shm_collective.h"
#include "worker-sdk/shm/shm_p2p.h"

/* Belongs to this process alone: the names of the doorbells derive from it, and
 * tests that run at the same time share their namespace. */
static unsigned char cookie[DDP__COOKIE];

static inline char *name_of(void *owner, int rank, char *out)
{
	(void)owner;
	snprintf(out, DDP__NAME_MAX, "rank %d on h1", rank);
	return out;
}

static inline int fate_of(void *owner, int rank, const char *seen,
			  struct err *e)
{
	(void)owner;
	return err_set(e, ERR_REMOTE, "%s: fate of %d", seen, rank);
}

static const struct ddp__peers peers = {NULL, name_of, fate_of};

/* Whether ranks can read each other's memory; qemu's user mode lacks that. */
static inline int reads_memory(void)
{
	char from = 1, to = 0;
	struct iovec mine = {&to, 1}, its = {&from, 1};

	return process_vm_readv(getpid(), &mine, 1, &its, 1, 0) == 1;
}

struct group {
	int fd, n;
};

static inline struct group make(int n)
{
	static int has_cookie;
	struct err e = ERR_INIT;
	struct group g = {-1, n};

	if (!has_cookie)
		ck_assert_int_eq(getentropy(cookie, sizeof(cookie)), 0);
	has_cookie = 1;
	g.fd = ddp__shm_create((size_t)n, cookie, &e);
	ck_assert_msg(g.fd >= 0, "%s", e.text);
	return g;
}

static inline int join(struct ddp__shm *s, const struct group *g, int me)
{
	static const struct ddp__call call = {.kind = DDP__INIT};
	static int ranks[256];
	struct err e = ERR_INIT;
	int rc = ddp__shm_attach(s, g->fd, me, g->n, cookie, &e);

	if (rc)
		return rc;
	for (int i = 0; i < 256; i++)
		ranks[i] = 10 * i;
	s->ranks = ranks;
	s->peers = &peers;
	s->timeout_ms = 20000;
	return ddp__shm_start(s, &call, &e);
}

/* Runs body in n children; expects 0 from all but `victim`, which is killed. */
static inline void run_with_victim(int n, int victim,
				   int (*body)(int me, void *arg), void *arg)
{
	pid_t pid[64];
	int status;

	fflush(NULL);
	for (int i = 0; i < n; i++) {
		pid[i] = fork();
		if (pid[i] == 0)
			_exit(body(i, arg));
		ck_assert_int_gt(pid[i], 0);
	}
	/* The victim last: until then it is a zombie, which counts as gone. */
	for (int k = 1; k <= n; k++) {
		int i = (victim + k) % n;

		if (i == victim)
			kill(pid[i], SIGKILL);
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_msg(status == (i == victim ? SIGKILL : 0),
			      "child %d of %d ended with status 0x%x", i, n,
			      status);
	}
}

/* As run_forked and run_with_victim, in a group of n ranks, which body gets. */
static inline void run_group(int n, int (*body)(int me, void *arg))
{
	struct group g = make(n);

	run_forked(n, body, &g);
	close(g.fd);
}

static inline void run_group_with_victim(int n, int victim,
					 int (*body)(int me, void *arg))
{
	struct group g = make(n);

	run_with_victim(n, victim, body, &g);
	close(g.fd);
}

/* xorshift: random-looking orders that are the same in each run. */
static inline unsigned next_random(unsigned *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

#endif

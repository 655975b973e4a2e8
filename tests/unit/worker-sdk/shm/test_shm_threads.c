/* test_shm_threads.c: ranks that are threads with one mapping of the segment,
 * so that ThreadSanitizer sees that they share it (make check SAN=thread): the
 * bytes in slots, cells, lines and rings are ordered by what ranks post. */
/* replaces: mmap munmap */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum { RANKS = 4, ROUNDS = 60, LARGE = 300000 };

static struct ddp__shm shms[RANKS];
static int local[RANKS] = {0, 10, 20, 30}, segment;
static void *mapping;

void *__real_mmap(void *at, size_t size, int prot, int flags, int fd,
		  off_t from);
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd,
		  off_t from);
int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size);

/* Ranks attach one after the other. */
void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd,
		  off_t from)
{
	if (flags & MAP_SHARED && fd == segment) {
		if (!mapping)
			mapping = __real_mmap(at, size, prot, flags, fd, from);
		return mapping;
	}
	return __real_mmap(at, size, prot, flags, fd, from);
}

int __wrap_munmap(void *at, size_t size)
{
	return at == mapping ? 0 : __real_munmap(at, size);
}

static void need(int ok, const char *what, const struct err *e)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, e->text);
	abort();
}

static struct ddp__call call_of(enum ddp__kind kind, size_t count, int root,
				uint64_t *number)
{
	return (struct ddp__call){kind, DDP_I32, DDP_SUM, root, count,
				  ++*number};
}

static void all_reduce(struct ddp__shm *s, size_t count, uint64_t *number)
{
	static int32_t in[RANKS][LARGE], out[RANKS][LARGE];
	struct ddp__call call =
		call_of(DDP__ALL_REDUCE, count, DDP__ALL, number);
	struct err e = ERR_INIT;
	struct ddp__shm_op op;
	int me = s->me, k = (int)*number;

	for (size_t i = 0; i < count; i++)
		in[me][i] = k * (me + 1) + (int)i;
	ddp__shm_reduce(&op, s, &call, in[me], out[me], count, DDP__ALL, 1);
	need(ddp__shm_run(&op, &e) == 0, "all_reduce", &e);
	for (size_t i = 0; i < count; i++)
		need(out[me][i] == 10 * k + 4 * (int)i, "sum", &e);
}

/* Through a cell, mostly; roots wait for nobody. */
static void broadcast(struct ddp__shm *s, int root, uint64_t *number)
{
	struct ddp__call call = call_of(DDP__BROADCAST, 2, root, number);
	int32_t data[2] = {(int)*number, root}, got[2] = {0};
	struct err e = ERR_INIT;
	struct ddp__shm_op op;

	ddp__shm_broadcast(&op, s, &call, root, data, sizeof(data), got, 0,
			   sizeof(got));
	need(ddp__shm_run(&op, &e) == 0, "broadcast", &e);
	need(got[0] == data[0] && got[1] == root, "value", &e);
}

/* A ring: each rank sends to the next, and receives from the one before. */
static void pass(struct ddp__shm *s, size_t count, uint64_t number)
{
	static int32_t out[RANKS][LARGE], in[RANKS][LARGE];
	int me = s->me, to = (me + 1) % RANKS, from = (me + 3) % RANKS;
	struct ddp__call send = {DDP__SEND, DDP_I32, DDP_SUM, to, count,
				 number};
	struct ddp__call recv = {DDP__RECV, DDP_I32, DDP_SUM, from, count,
				 number};
	size_t size = count * sizeof(**out);
	struct ddp__shm_msg m[2];
	struct err e = ERR_INIT;

	for (size_t i = 0; i < count; i++)
		out[me][i] = (int)number * me + (int)i;
	ddp__shm_send(&m[0], s, &send, out[me], size, to);
	ddp__shm_recv(&m[1], s, &recv, in[me], size, from);
	/* ranks 0 and 2 send first, the others receive first */
	for (int k = 0; k < 2; k++)
		need(ddp__shm_msg_run(&m[k ^ (me & 1)], &e) == 0, "message",
		     &e);
	for (size_t i = 0; i < count; i++)
		need(in[me][i] == (int)number * from + (int)i, "bytes", &e);
}

/* As the engine does: sleeps at the bell between advances. */
static void barrier_by_bell(struct ddp__shm *s, uint64_t *number)
{
	struct ddp__call call = call_of(DDP__BARRIER, 0, DDP__ALL, number);
	struct err e = ERR_INIT;
	struct ddp__shm_op op;
	struct pollfd p = {ddp__shm_doorbell(s, &e), POLLIN, 0};
	int rc;

	need(p.fd >= 0, "doorbell", &e);
	ddp__shm_barrier(&op, s, &call);
	while ((rc = ddp__shm_advance(&op, &e)) == 0) {
		if (!ddp__shm_arm(s))
			poll(&p, 1, 100);
		ddp__shm_disarm(s);
	}
	need(rc == 1, "barrier", &e);
}

static void *rank_main(void *arg)
{
	static const size_t sizes[] = {1, 8, 1000, 5000, 20000, LARGE};
	static const struct ddp__call init = {.kind = DDP__INIT};
	struct ddp__shm *s = arg;
	struct err e = ERR_INIT;
	uint64_t number = 0, words;

	need(ddp__shm_start(s, &init, &e) == 0, "start", &e);
	/* both ways to wait */
	for (int k = 0; k < ROUNDS; k++) {
		s->spins = k & 1;
		all_reduce(s, k % 30 ? sizes[k % 4] : LARGE, &number);
		for (int i = 0; i < 40; i++)
			broadcast(s, (k + i / 7) % RANKS, &number);
		pass(s, sizes[(size_t)k % 6], ++number);
		barrier_by_bell(s, &number);
		words = number;
		ddp__shm_board_put(s, 0, &words, sizeof(words));
		ddp__shm_board_get(s, (s->me + 1) % RANKS, 0, &words,
				   sizeof(words));
	}
	/* the others wait for rank 3, which gives a reason instead */
	if (s->me == 3) {
		err_set(&e, ERR_CALLER, "a reason");
		ddp__shm_abort(s, &e);
		return NULL;
	}
	ddp__shm_begin(s, &(struct ddp__call){.kind = DDP__BARRIER,
					      .number = ++number});
	ddp__shm_post(s);
	need(ddp__shm_wait(s, &e) == ERR_CALLER && !strcmp(e.text, "a reason"),
	     "abort", &e);
	return NULL;
}

START_TEST(rank_threads_have_no_data_race)
{
	struct group g = make(RANKS);
	struct err e = ERR_INIT;
	pthread_t thread[RANKS];

	segment = g.fd;
	for (int i = 0; i < RANKS; i++) {
		ck_assert_int_eq(ddp__shm_attach(&shms[i], g.fd, i, RANKS,
						 cookie, &e), 0);
		shms[i].ranks = local;
		shms[i].peers = &peers;
		shms[i].timeout_ms = 60000;
	}
	for (int i = 0; i < RANKS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, rank_main,
						&shms[i]), 0);
	for (int i = 0; i < RANKS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < RANKS; i++)
		ddp__shm_detach(&shms[i]);
	close(g.fd);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_threads");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, rank_threads_have_no_data_race);
	return run_case(tc);
}

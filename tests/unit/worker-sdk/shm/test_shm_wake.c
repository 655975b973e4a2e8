/* test_shm_wake.c: one rank posts a step while another goes to sleep at the
 * same moment: the first wakes the second, or the second sees the step. Neither
 * may look before the other can see its store. */
/* replaces: ddp__shm_wake */
#include <pthread.h>
#include <sched.h>

#include "base/clock.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

/* Wakes are only counted here (-Wl,--wrap). */
void __wrap_ddp__shm_wake(_Atomic uint32_t *word);
static _Atomic uint32_t *woken;

void __wrap_ddp__shm_wake(_Atomic uint32_t *word)
{
	woken = word;
}

/* While other programs use the CPUs, each meeting takes milliseconds: then the
 * test ends after SECONDS, with fewer rounds. */
enum { ROUNDS = 200000, SPINS = 1000, SECONDS = 10 };

static struct ddp__shm ranks[2];
static _Alignas(64) _Atomic int at[2][16]; /* the round that a thread is in */
static _Atomic int last = ROUNDS; /* the last round */
static int slept[ROUNDS + 1]; /* set in a round in which the sleeper did not see
			       * the step */

/* The race needs both threads on CPUs at the same time, so they meet there
 * without a system call. */
static void meet(int me, int k)
{
	atomic_store(&at[me][0], k);
	for (int i = 0; atomic_load(&at[!me][0]) < k; i++)
		if (i > SPINS)
			sched_yield();
}

/* If the process may run on only one CPU, the test shows nothing. */
static void run_on(int cpu)
{
	cpu_set_t all, one;
	int n = 0;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all) && n++ == cpu)
			CPU_SET(i, &one);
	if (n > cpu)
		sched_setaffinity(0, sizeof(one), &one);
}

/* Goes to sleep as shm_wait.c does: counts itself as a sleeper, then looks
 * again. */
static void *sleep_each_time(void *arg)
{
	struct ddp__shm_control *peer = ddp__shm_control(&ranks[1], 0);

	(void)arg;
	run_on(1);
	for (int k = 1; k <= atomic_load(&last); k++) {
		uint32_t before = atomic_load(&peer->step);

		meet(1, 2 * k);
		for (int i = 0; i < k % 61; i++)
			__asm__ volatile("" ::: "memory");
		atomic_fetch_add(&peer->sleepers, 1);
		slept[k] = atomic_load(&peer->step) == before;
		meet(1, 2 * k + 1);
	}
	return NULL;
}

START_TEST(a_post_wakes_a_rank_that_did_not_see_it)
{
	struct ddp__shm_control *mine;
	struct group g = make(2);
	struct err e = ERR_INIT;
	uint64_t began = clock_ns();
	int lost = 0;
	pthread_t other;

	/* qemu 7.2 on x86: STLR and a following LDAR may change places */
	if (emulator_lacks("the order of a store and the next load"))
		return;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(ddp__shm_attach(&ranks[i], g.fd, i, 2, cookie,
						 &e), 0);
	mine = ddp__shm_control(&ranks[0], 0);
	ck_assert_int_eq(pthread_create(&other, NULL, sleep_each_time, NULL),
			 0);
	run_on(0);
	for (int k = 1; k <= atomic_load(&last); k++) {
		int awake;

		/* before the other can leave this round */
		if (clock_ns() - began > SECONDS * UINT64_C(1000000000))
			atomic_store(&last, k);
		atomic_store(&mine->sleepers, 0);
		woken = NULL;
		meet(0, 2 * k);
		ddp__shm_post(&ranks[0]);
		awake = woken == &mine->step;
		meet(0, 2 * k + 1);
		lost += slept[k] && !awake;
	}
	pthread_join(other, NULL);
	ck_assert_msg(!lost, "%d of %d sleepers were not woken", lost, ROUNDS);
	for (int i = 0; i < 2; i++)
		ddp__shm_detach(&ranks[i]);
	close(g.fd);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_wake");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_post_wakes_a_rank_that_did_not_see_it);
	return run_case(tc);
}

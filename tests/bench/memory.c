/* memory.c: what the machine's memory does when nobody interprets anything:
 * N processes that copy between buffers of their own, all at once, and two that
 * hand a number to and fro through a cache line that they share. Prints as
 * bench_collectives does: "copy" of that many bytes, "ping-pong" (both ways).
 *
 *   memory N BYTES...
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WINDOW_US = 1000, WINDOWS = 20, MOST = 256, TURNS = 5000 };

struct shared {
	_Alignas(64) _Atomic int there;
	_Alignas(64) _Atomic int back;
	_Alignas(64) _Atomic int arrived;
	double us[MOST];
};

static struct shared *shared;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Waits until all n have come for the turn-th time. */
static void meet(int n, int turn)
{
	atomic_fetch_add(&shared->arrived, 1);
	while (atomic_load(&shared->arrived) < n * turn)
		sched_yield();
}

/* What a copy takes in this process, all doing as many; of the fastest of some
 * windows, as bench_collectives has it. */
static double copy_us(size_t bytes, int n, int *turn)
{
	char *from = malloc(bytes), *to = malloc(bytes);
	long calls = (long)(WINDOW_US * 10000.0 / (double)(bytes + 1000)) + 1;
	double start, us, best = 1e18;

	if (!from || !to)
		exit(1);
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	for (int window = 0; window < WINDOWS; window++) {
		meet(n, ++*turn);
		start = now_us();
		for (long i = 0; i < calls; i++) {
			memcpy(to, from, bytes);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		us = (now_us() - start) / (double)calls;
		best = us < best ? us : best;
	}
	free(from);
	free(to);
	return best;
}

/* To a CPU of its own, where there are as many. */
static void bind(int me, int n)
{
	cpu_set_t all, one;
	int seen = 0;

	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < n)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && seen++ == me)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void copies(int me, int n, char *const *bytes)
{
	int turn = 0;

	for (; *bytes; bytes++) {
		double sum = 0;

		shared->us[me] = copy_us(strtoul(*bytes, NULL, 10), n, &turn);
		meet(n, ++turn);
		for (int i = 0; i < n; i++)
			sum += shared->us[i];
		if (me == 0)
			printf("copy %s out %.3f 0\n", *bytes, sum / n);
		meet(n, ++turn);
	}
}

static void wait_for(_Atomic int *cell, int value)
{
	while (atomic_load(cell) != value)
		__builtin_ia32_pause();
}

/* For two processes on two CPUs. */
static void ping(int me)
{
	double best = 1e18;

	for (int turn = 0, window = 0; window < WINDOWS; window++) {
		double start = now_us(), us;

		for (int i = 0; i < TURNS; i++) {
			turn++;
			if (me == 0) {
				atomic_store(&shared->there, turn);
				wait_for(&shared->back, turn);
			} else {
				wait_for(&shared->there, turn);
				atomic_store(&shared->back, turn);
			}
		}
		us = (now_us() - start) / TURNS;
		best = us < best ? us : best;
	}
	if (me == 0)
		printf("ping-pong 4 out %.3f 0\n", best);
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0;

	if (n < 1 || n > MOST)
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int me = 0; me < n; me++)
		if (fork() == 0) {
			bind(me, n);
			copies(me, n, argv + 2);
			if (n == 2)
				ping(me);
			return 0;
		}
	while (wait(NULL) > 0)
		;
	return 0;
}

/* bench_stop.c: how long `ddprun dump` stops a thread: the time of
 * thread_snapshot_take, which is a little longer than the stop, for N processes
 * with deep stacks. Prints the median and the longest in microseconds.
 *
 *   bench_stop N */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/inspect/thread_snapshot.h"

enum { STACK_USED = 512 << 10 };

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void child(int ready)
{
	volatile char deep[STACK_USED];

	for (size_t i = 0; i < sizeof(deep); i += 1024)
		deep[i] = 1;
	(void)!write(ready, "r", 1);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	static struct thread_snapshot s;
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
	pid_t *pids = calloc(n, sizeof(*pids));
	uint64_t *took = calloc(n, sizeof(*took));
	int ready[2], failed = 0;
	struct err e;
	char byte;

	if (!pids || !took || n == 0 || pipe(ready) < 0)
		return 1;
	for (size_t i = 0; i < n; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			child(ready[1]);
		if (pids[i] < 0 || read(ready[0], &byte, 1) != 1)
			return 1;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t began = clock_ns();

		if (thread_snapshot_take(&s, pids[i], pids[i], &e) < 0) {
			fprintf(stderr, "%s\n", e.text);
			failed = 1;
		}
		took[i] = clock_ns() - began;
	}
	for (size_t i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	qsort(took, n, sizeof(*took), compare);
	printf("%.1f %.1f\n", (double)took[n / 2] / 1e3,
	       (double)took[n - 1] / 1e3);
	return failed;
}

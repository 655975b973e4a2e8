/* w_asks.c: a worker that only asks libddp in each step whether to stop, and
 * does not handle SIGTERM.
 *   w_asks CODE [RANK SIGNAL]   prints "up RANK of SIZE, NS" when all ranks are
 *                here and "told at STEP, NS" (monotonic) when it should stop,
 *                and exits with CODE; that rank raises SIGNAL instead
 *   w_asks once  asks once, and never again */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	ddp_comm *world;
	long n = 0;
	int rank, told = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2 || ddp_init(&world, NULL) < 0) {
		fprintf(stderr, "w_asks: %s\n",
			argc < 2 ? "what?" : ddp_last_error());
		return 1;
	}
	rank = ddp_rank(world);
	for (; told == 0; n++) {
		told = ddp_should_stop(world);
		if (n == 0)
			printf("up %d of %d, %" PRIu64 "\n", rank,
			       ddp_world_size(world), now());
		if (!strcmp(argv[1], "once"))
			pause();
	}
	if (told < 0) {
		fprintf(stderr, "w_asks: %s\n", ddp_last_error());
		return 1;
	}
	printf("told at %ld, %" PRIu64 "\n", n, now());
	if (argc > 3 && atoi(argv[2]) == rank)
		raise(atoi(argv[3]));
	ddp_finalize(world);
	return atoi(argv[1]);
}

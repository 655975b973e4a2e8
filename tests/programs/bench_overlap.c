/* bench_overlap: a synthetic backward pass, of layers that each compute for a
 * while and then have a gradient, with the reducer and a progress thread.
 * Rank 0 prints, in ms a step: computing alone, communicating alone, one after
 * the other, and both at once; and how much of a CPU communicating took, which
 * nothing can overlap where the computing has all CPUs. The work is a count of
 * operations, fitted once so that computing takes as long as communicating:
 * where overlap has most to give.
 *
 *   bench_overlap [MIB of gradients [device]]
 *
 * device: the computing is an accelerator's, for which the CPU only waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "worker-sdk/ddp.h"

enum { LAYERS = 40, STEPS = 5 };

static ddp_comm *world;
static ddp_reducer *reducer;

static void must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "%s\n", ddp_last_error());
		exit(1);
	}
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Of this process, in the kernel too. */
static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static int device;

/* A chain of additions in a register: computes, and touches no memory. */
static void compute(long turns)
{
	struct timespec t = {turns / 1000000000, turns % 1000000000};
	double x = 1;

	if (device) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		return;
	}

	for (long i = 0; i < turns; i++)
		__asm__ volatile("addsd %0, %0" : "+x"(x));
}

static void step(int computing, int reducing, long turns)
{
	if (reducing)
		must(ddp_reducer_begin(reducer, 1));
	for (int i = LAYERS - 1; i >= 0; i--) {
		if (computing)
			compute(turns);
		if (reducing)
			must(ddp_reducer_ready(reducer, i));
	}
	if (reducing)
		must(ddp_reducer_finish(reducer));
}

static double mean(double mine)
{
	must(ddp_all_reduce(world, &mine, &mine, 1, DDP_F64, DDP_AVG));
	return mine;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 64, counts[LAYERS];
	double ms[4][STEPS], cpu[STEPS], start, once;
	long turns = 1000000;
	float *grads;

	must(ddp_init(&world, NULL));
	must(ddp_progress_start(world, -1));
	grads = calloc(mib << 18, sizeof(*grads));
	device = argc > 2;
	if (!grads)
		return 1;
	for (int i = 0; i < LAYERS; i++)
		counts[i] = (mib << 18) / LAYERS;
	must(ddp_reducer_new(&reducer, world, grads, DDP_F32, counts, LAYERS,
			     NULL));
	step(0, 1, 0);
	must(ddp_barrier(world));
	start = now_ms();
	step(0, 1, 0);
	once = mean(now_ms() - start);
	start = now_ms();
	step(1, 0, turns);
	turns = (long)((double)turns * once / mean(now_ms() - start));
	for (int s = 0; s < STEPS; s++)
		for (int how = 0; how < 4; how++) {
			must(ddp_barrier(world));
			start = now_ms();
			once = cpu_ms();
			if (how == 2) {
				step(1, 0, turns);
				step(0, 1, turns);
			} else {
				step(how != 1, how != 0, turns);
			}
			once = cpu_ms() - once;
			ms[how][s] = mean(now_ms() - start);
			if (how == 1)
				cpu[s] = mean(once);
		}
	for (int how = 0; how < 4; how++)
		qsort(ms[how], STEPS, sizeof(double), ascending);
	qsort(cpu, STEPS, sizeof(double), ascending);
	if (ddp_rank(world) == 0)
		printf("overlap %.3f %.3f %.3f %.3f %.3f\n", ms[0][STEPS / 2],
		       ms[1][STEPS / 2], ms[2][STEPS / 2], ms[3][STEPS / 2],
		       cpu[STEPS / 2]);
	fflush(stdout);
	ddp_reducer_free(reducer);
	ddp_finalize(world);
	free(grads);
	return 0;
}

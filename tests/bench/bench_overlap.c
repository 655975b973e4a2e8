/* bench_overlap: a synthetic backward pass with the reducer and a progress
 * thread. Each layer computes for a while and then has a gradient. Rank 0
 * prints, in ms per step: computing alone, communicating alone, one after the
 * other, and both at once. It also prints how much CPU time communicating
 * takes: that part cannot overlap if computing uses all CPUs. The work is a
 * number of operations, chosen once so that computing takes as long as
 * communicating, where overlap helps most.
 *
 *   bench_overlap [MIB of gradients [device | arena | spans]]
 *
 * device: an accelerator computes, and the CPU only waits for it. arena, spans:
 * each layer has the twelve tensors of a layer of GPT-2, in an arena layer by
 * layer, or apart, by tensor and then by layer, as in llm.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "worker-sdk/ddp.h"

enum { LAYERS = 40, STEPS = 5, TENSORS_MAX = 12 };

/* Of C x C and of C elements. */
static const int squares[TENSORS_MAX] = {[2] = 3, [4] = 1, [8] = 4, [10] = 4};
static const int rows[TENSORS_MAX] = {1, 1, 0, 3, 0, 1, 1, 1, 0, 4, 0, 1};
static int tensors = 1; /* per layer */

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

/* CPU time of this process, also in the kernel. */
static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static int device;

/* A chain of additions in registers: uses no memory. */
static void compute(long turns)
{
	struct timespec t = {turns / 1000000000, turns % 1000000000};
	double x = 1;

	if (device) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		return;
	}

	for (long i = 0; i < turns; i++)
#ifdef __aarch64__
		__asm__ volatile("fadd %d0, %d0, %d0" : "+w"(x));
#else
		__asm__ volatile("addsd %0, %0" : "+x"(x));
#endif
}

static void step(int computing, int reducing, long turns)
{
	if (reducing)
		must(ddp_reducer_begin(reducer, 1));
	for (int i = LAYERS - 1; i >= 0; i--) {
		if (computing)
			compute(turns);
		for (int t = tensors - 1; t >= 0 && reducing; t--)
			must(ddp_reducer_ready(reducer, i * tensors + t));
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

static size_t count_of(size_t mib, int tensor)
{
	size_t layer = (mib << 18) / LAYERS, c = 1;

	if (tensors == 1)
		return layer;
	while (12 * (c + 1) * (c + 1) + 13 * (c + 1) <= layer)
		c++;
	return c * ((size_t)squares[tensor] * c + (size_t)rows[tensor]);
}

static int make_reducer(float *grads, size_t mib, int apart)
{
	static struct ddp_span spans[LAYERS * TENSORS_MAX];
	static size_t counts[LAYERS * TENSORS_MAX];

	for (int t = 0; t < tensors; t++)
		for (int l = 0; l < LAYERS; l++) {
			int i = l * tensors + t;

			counts[i] = count_of(mib, t);
			spans[i] = (struct ddp_span){grads, counts[i], DDP_F32};
			grads += apart ? counts[i] : 0;
		}
	if (apart)
		return ddp_reducer_new_spans(&reducer, world, spans,
					     LAYERS * tensors, NULL);
	return ddp_reducer_new(&reducer, world, grads, DDP_F32, counts,
			       LAYERS * tensors, NULL);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
	const char *mode = argc > 2 ? argv[2] : "";
	double ms[4][STEPS], cpu[STEPS], start, once;
	long turns = 1000000;
	float *grads;

	must(ddp_init(&world, NULL));
	must(ddp_progress_start(world, -1));
	grads = calloc(mib << 18, sizeof(*grads));
	device = !strcmp(mode, "device");
	if (!strcmp(mode, "arena") || !strcmp(mode, "spans"))
		tensors = TENSORS_MAX;
	if (!grads)
		return 1;
	must(make_reducer(grads, mib, !strcmp(mode, "spans")));
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

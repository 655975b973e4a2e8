/* bench_overlap.c: how much of the averaging the reducer hides behind a
 * backward pass. The pass is synthetic: LAYERS gradients of equal size, each
 * ready after an equal part of the time that the pass takes, during which the
 * CPU waits (an accelerator computes) or is busy. Rank 0 prints medians, in
 * ms, all measured in turn: the pass alone, the averaging alone, both one after
 * the other, both with the reducer; and the last over the larger of the first
 * two.
 *
 *   bench_overlap MIB COMPUTE_MS wait|busy [progress]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker-sdk/ddp.h"

enum { LAYERS = 50, ROUNDS = 9, KINDS = 4, BUCKET = 4 << 20 };
enum kind { PASS, AVERAGE, ONE_BY_ONE, REDUCER };

static ddp_comm *world;
static ddp_reducer *reducer;
static float *grads;
static size_t count; /* of a layer */
static double layer_ms;
static int busy;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "bench_overlap: %s\n", ddp_last_error());
	exit(1);
}

/* Until `end`, so that one layer that comes late does not delay all others. */
static void compute(double end)
{
	double left;

	while ((left = end - now()) > 0) {
		struct timespec t = {0, (long)(left * 1e6)};

		t.tv_sec = t.tv_nsec / 1000000000;
		t.tv_nsec %= 1000000000;
		if (!busy)
			nanosleep(&t, NULL);
	}
}

static double run(enum kind kind)
{
	double start;

	must(ddp_barrier(world));
	start = now();
	if (kind == REDUCER)
		must(ddp_reducer_begin(reducer, 1));
	for (int i = LAYERS - 1; i >= 0 && kind != AVERAGE; i--) {
		compute(start + layer_ms * (LAYERS - i));
		if (kind == REDUCER)
			must(ddp_reducer_ready(reducer, i));
	}
	if (kind == REDUCER)
		must(ddp_reducer_finish(reducer));
	for (size_t at = 0; (kind == AVERAGE || kind == ONE_BY_ONE) &&
			    at < LAYERS * count;
	     at += BUCKET / sizeof(float)) {
		size_t n = LAYERS * count - at;

		if (n > BUCKET / sizeof(float))
			n = BUCKET / sizeof(float);
		must(ddp_all_reduce(world, grads + at, grads + at, n, DDP_F32,
				    DDP_AVG));
	}
	return now() - start;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct ddp_reducer_options o = {.bucket = BUCKET};
	double took[KINDS][ROUNDS], m[KINDS];
	size_t counts[LAYERS];

	if (argc < 4)
		return 2;
	count = strtoul(argv[1], NULL, 10) * (1 << 20) / sizeof(float) / LAYERS;
	layer_ms = atof(argv[2]) / LAYERS;
	busy = !strcmp(argv[3], "busy");
	must(ddp_init(&world, NULL));
	if (argc > 4)
		must(ddp_progress_start(world, -1));
	grads = calloc(LAYERS * count, sizeof(float));
	if (!grads)
		return 1;
	for (size_t i = 0; i < LAYERS * count; i++)
		grads[i] = 1;
	for (int i = 0; i < LAYERS; i++)
		counts[i] = count;
	must(ddp_reducer_new(&reducer, world, grads, DDP_F32, counts, LAYERS,
			     &o));
	for (int round = -1; round < ROUNDS; round++)
		for (int k = 0; k < KINDS; k++)
			took[k][round < 0 ? 0 : round] = run((enum kind)k);
	for (int k = 0; k < KINDS; k++) {
		qsort(took[k], ROUNDS, sizeof(double), by_value);
		m[k] = took[k][ROUNDS / 2];
	}
	if (ddp_rank(world) == 0)
		printf("%8.1f %8.1f %8.1f %8.1f %8.2f\n", m[PASS], m[AVERAGE],
		       m[ONE_BY_ONE], m[REDUCER],
		       m[REDUCER] / (m[PASS] > m[AVERAGE] ? m[PASS]
							  : m[AVERAGE]));
	ddp_reducer_free(reducer);
	free(grads);
	ddp_finalize(world);
	return 0;
}

/* check_collective.c: the data plane as a worker sees it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "worker-sdk/check/check.h"
#include "worker-sdk/ddp.h"

enum {
	QUICK_MS = 5000, FULL_MS = 30000,
	QUICK_COUNT = 64 << 10, FULL_COUNT = 4 << 20, /* f32 */
	TIMES = 3,
};

static int collective_failed(struct findings *found, const char *what)
{
	finding_mark(finding_add(found, "all_reduce", "failed"),
		     FINDING_FAILURE, "%s: %.250s", what, ddp_last_error());
	return -1;
}

/* The sum of 1 + rank, which all ranks can compute. */
static int collective_run(ddp_comm *world, float *data, size_t count,
			  struct findings *found, double *best)
{
	int n = ddp_world_size(world);
	float want = (float)n * (float)(n + 1) / 2;

	for (int i = 0; i < TIMES; i++) {
		uint64_t start;
		double ms;

		for (size_t k = 0; k < count; k++)
			data[k] = (float)(ddp_rank(world) + 1);
		if (ddp_barrier(world) < 0)
			return collective_failed(found, "barrier");
		start = clock_ns();
		if (ddp_all_reduce(world, data, data, count, DDP_F32,
				   DDP_SUM) < 0)
			return collective_failed(found, "all_reduce");
		ms = (double)(clock_ns() - start) / 1e6;
		*best = i == 0 || ms < *best ? ms : *best;
		for (size_t k = 0; k < count; k++) {
			if (data[k] == want)
				continue;
			finding_mark(finding_add(found, "all_reduce", "wrong"),
				     FINDING_FAILURE, "all_reduce: element %zu "
				     "is %g, not %g: this host or its network "
				     "corrupts data", k, (double)data[k],
				     (double)want);
			return -1;
		}
	}
	return 0;
}

void check_collective(const struct check_options *o, struct findings *found)
{
	const struct ddp_options options = {
		.backend = o->full ? NULL : "cpu",
		.timeout_ms = o->full ? FULL_MS : QUICK_MS,
	};
	size_t count = o->full ? FULL_COUNT : QUICK_COUNT;
	float *data = calloc(count, sizeof(*data));
	ddp_comm *world;
	double best = 0;

	if (!data)
		return;
	if (ddp_init(&world, &options) < 0) {
		collective_failed(found, "ddp_init");
		free(data);
		return;
	}
	if (collective_run(world, data, count, found, &best) == 0)
		finding_add(found, "all_reduce", "%s of %zu KiB in %.2f ms",
			    ddp_backend(world), count * sizeof(float) / 1024,
			    best);
	ddp_finalize(world);
	free(data);
}

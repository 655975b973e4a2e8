/* bench_recorder: what the flight recorder adds to a call, beside what the
 * smallest all_reduce takes. Rank 0 prints for each of 15 rounds: nanoseconds
 * of a record, nanoseconds of a 4 B all_reduce. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/flight.h"
#include "worker-sdk/ddp.h"

enum { ROUNDS = 15, RECORDS = 200000, CALLS = 50000 };

static void must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "%s\n", ddp_last_error());
		exit(1);
	}
}

static double time_records(struct flight *f)
{
	uint64_t start = clock_ns();

	for (uint64_t i = 1; i <= RECORDS; i++)
		flight_end(f, flight_begin(f, 0, i, i), 0);
	return (double)(clock_ns() - start) / RECORDS;
}

static double time_calls(ddp_comm *world)
{
	float value = 1, sum;
	uint64_t start;

	must(ddp_barrier(world));
	start = clock_ns();
	for (int i = 0; i < CALLS; i++)
		must(ddp_all_reduce(world, &value, &sum, 1, DDP_F32, DDP_MAX));
	return (double)(clock_ns() - start) / CALLS;
}

int main(void)
{
	struct flight *f = aligned_alloc(64, sizeof(*f));
	ddp_comm *world;

	must(ddp_init(&world, NULL));
	if (!f)
		return 1;
	memset(f, 0, sizeof(*f));
	flight_start(f, 0, 1);
	for (int i = 0; i < ROUNDS; i++) {
		double record = time_records(f), call = time_calls(world);

		if (ddp_rank(world) == 0)
			printf("%.2f %.1f\n", record, call);
	}
	ddp_finalize(world);
	free(f);
	return 0;
}

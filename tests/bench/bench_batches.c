/* bench_batches.c: copies packed images in random order into batches, as the
 * trainers do, and the same bytes with memcpy from start to end. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trainers/data/records.h"

static const char usage[] =
	"bench_batches FOLDER\n"
	"  prints GB per second of CPU time: batches, memcpy\n";

enum { BATCH = 64, PASSES = 20 };

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint32_t *shuffled(uint32_t n)
{
	uint32_t *order = malloc(n * sizeof(*order)), state = 1;

	if (!order)
		return NULL;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	for (uint32_t i = n; i > 1; i--) {
		uint32_t k, swap = order[i - 1];

		state = state * 1664525 + 1013904223;
		k = (uint32_t)((uint64_t)state * i >> 32);
		order[i - 1] = order[k];
		order[k] = swap;
	}
	return order;
}

/* order NULL: images one after the other. */
static double copy_all(const struct dataset_part *p, const uint32_t *order,
		       uint8_t *batch)
{
	size_t size = p->samples.size;
	double start = seconds();

	for (int pass = 0; pass < PASSES; pass++)
		for (uint32_t i = 0; i < p->count; i++)
			memcpy(batch + i % BATCH * size,
			       p->samples.pixels +
				       (size_t)(order ? order[i] : i) * size,
			       size);
	return (double)size * p->count * PASSES / (seconds() - start) / 1e9;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	struct records r;
	uint32_t *order;
	uint8_t *batch;
	double sorted, random;

	if (argc != 2) {
		fputs(usage, stderr);
		return 2;
	}
	if (records_open(&r, argv[1], &e) < 0) {
		fprintf(stderr, "bench_batches: %s\n", e.text);
		return 1;
	}
	order = shuffled(r.set.train.count);
	batch = malloc(BATCH * r.set.train.samples.size);
	if (!order || !batch)
		return 1;
	copy_all(&r.set.train, NULL, batch); /* maps the pages */
	sorted = copy_all(&r.set.train, NULL, batch);
	random = copy_all(&r.set.train, order, batch);
	printf("%.2f %.2f\n", random, sorted);
	records_release(&r);
	free(order);
	free(batch);
	return 0;
}

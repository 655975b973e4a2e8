/* c_sums.c: checks a little of everything that a worker uses of libddp: the
 * store, small and large collectives, messages. Prints "rank R: all right", or
 * an error on stderr and exits with 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/ddp.h"

enum { MANY = 70000, PATIENCE_MS = 8000 };

static float values[MANY];
static ddp_comm *world;

static void must(int64_t rc, const char *call)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "rank %s: %s: %s\n", getenv("RANK"), call,
		ddp_last_error());
	exit(1);
}

static void is(int right, const char *what)
{
	if (right)
		return;
	fprintf(stderr, "rank %s: WRONG: %s\n", getenv("RANK"), what);
	exit(4); /* no rank has printed this yet */
}

static void use_store(int rank, int size)
{
	char key[32], got[64];
	int64_t n;

	snprintf(key, sizeof(key), "key/%d", rank);
	must(ddp_store_set(world, key, key, strlen(key)), "set");
	for (int r = 0; r < size; r++) {
		snprintf(key, sizeof(key), "key/%d", r);
		memset(got, 0, sizeof(got));
		must(ddp_store_get(world, key, got, sizeof(got), PATIENCE_MS),
		     "get");
		is(strcmp(got, key) == 0, "what get gave");
	}
	for (int i = 0; i < 5; i++)
		must(ddp_store_add(world, "sum", 1 + rank, &n), "add");
	must(ddp_barrier(world), "barrier");
	must(ddp_store_add(world, "sum", 0, &n), "add");
	is(n == 5 * (int64_t)size * (size + 1) / 2, "the sum in the store");
}

static void use_collectives(int rank, int size, size_t count)
{
	for (size_t i = 0; i < count; i++)
		values[i] = (float)(rank + 1 + (int)(i % 7));
	must(ddp_all_reduce(world, values, values, count, DDP_F32, DDP_SUM),
	     "all_reduce");
	for (size_t i = 0; i < count; i++)
		is(values[i] == (float)(size * (size + 1) / 2 +
					size * (int)(i % 7)), "a sum");
	values[0] = rank == 0 ? 42 : 0;
	must(ddp_broadcast(world, values, count, DDP_F32, 0), "broadcast");
	is(values[0] == 42, "what was broadcast");
}

int main(void)
{
	int rank, size;

	must(ddp_init(&world, NULL), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	use_store(rank, size);
	use_collectives(rank, size, 5);
	use_collectives(rank, size, MANY);
	must(ddp_barrier(world), "barrier");
	printf("rank %d: all right\n", rank);
	ddp_finalize(world);
	return 0;
}

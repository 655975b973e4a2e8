/* c_messages.c: messages between all ranks, blocking and asynchronous, of many
 * sizes, several under way at once, among collectives that are under way too,
 * and of a rank to itself. Prints "rank R of N: ok" or what was wrong.
 *
 *   c_messages [thread] [groups]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

/* The k-th message from one rank to another. */
static int32_t value(int from, int to, int k, size_t i)
{
	return (int32_t)((size_t)(from * 7919 + to * 104729 + k * 31) + i * 17);
}

static int32_t *message(int from, int to, int k, size_t n)
{
	int32_t *m = malloc(n * sizeof(*m) + 1);

	for (size_t i = 0; i < n; i++)
		m[i] = value(from, to, k, i);
	return m;
}

static void check(const int32_t *m, int from, int k, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (m[i] != value(from, rank, k, i))
			DIE("message %d from %d: wrong at %zu of %zu", k, from,
			    i, n);
}

static const size_t counts[] = {1, 0, 3, 1000, 50000, 1, 1 << 20, 2};
enum { COUNTS = sizeof(counts) / sizeof(*counts) };

/* Round the ring, with blocking calls: even ranks send first. */
static void ring(ddp_comm *c)
{
	int next = (rank + 1) % size, before = (rank + size - 1) % size;

	for (int k = 0; k < COUNTS && size > 1; k++) {
		size_t n = counts[k];
		int32_t *out = message(rank, next, k, n);
		int32_t *in = malloc(n * sizeof(*in) + 1);
		/* the last of an odd ring would meet another sender */
		int first = rank % 2 == 0 && !(size % 2 && rank == size - 1);

		if (first)
			must(ddp_send(c, out, n, DDP_I32, next), "send");
		must(ddp_recv(c, in, n, DDP_I32, before), "recv");
		if (!first)
			must(ddp_send(c, out, n, DDP_I32, next), "send");
		check(in, before, k, n);
		free(out);
		free(in);
	}
}

/* Begins the messages between all ranks, and to itself, at once, with
 * collectives in between; then waits for them, the last one first. */
static void all_at_once(ddp_comm *c)
{
	int total = size * COUNTS, n = 0;
	ddp_request **sends = calloc((size_t)total, sizeof(*sends));
	ddp_request **receives = calloc((size_t)total, sizeof(*receives));
	int32_t **out = calloc((size_t)total, sizeof(*out));
	int32_t **in = calloc((size_t)total, sizeof(*in));
	ddp_request *sum = NULL;
	int64_t one = 1, ranks = 0;

	for (int k = 0; k < COUNTS; k++)
		for (int r = 0; r < size; r++, n++) {
			out[n] = message(rank, r, k, counts[k]);
			in[n] = malloc(counts[k] * sizeof(**in) + 1);
			must(ddp_send_async(c, out[n], counts[k], DDP_I32, r,
					    &sends[n]), "send_async");
			must(ddp_recv_async(c, in[n], counts[k], DDP_I32, r,
					    &receives[n]), "recv_async");
			if (n == 3)
				must(ddp_all_reduce_async(c, &one, &ranks, 1,
							  DDP_I64, DDP_SUM,
							  &sum), "all_reduce");
			if (n == 2 * size)
				must(ddp_barrier(c), "barrier");
		}
	if (!sum)
		must(ddp_all_reduce_async(c, &one, &ranks, 1, DDP_I64, DDP_SUM,
					  &sum), "all_reduce");
	must(ddp_wait(&sum), "wait");
	if (ranks != size)
		DIE("all_reduce among messages: %lld", (long long)ranks);
	for (int i = total - 1; i >= 0; i--) {
		must(ddp_wait(&receives[i]), "wait for recv");
		check(in[i], i % size, i / size, counts[i / size]);
		free(in[i]);
	}
	must(ddp_wait_all(sends, total), "wait_all");
	for (int i = 0; i < total; i++)
		free(out[i]);
	free(sends);
	free(receives);
	free(out);
	free(in);
}

/* A message to itself is kept until it is received; a receive without a send is
 * an error. */
static void own(ddp_comm *c)
{
	int32_t a[2] = {1, 2}, b[2] = {0, 0};
	ddp_request *r = NULL;
	int rc;

	must(ddp_send(c, a, 2, DDP_I32, rank), "send to oneself");
	a[0] = 9;
	must(ddp_recv_async(c, b, 2, DDP_I32, rank, &r), "recv from oneself");
	if (ddp_test(r) != 1 || b[0] != 1 || b[1] != 2)
		DIE("a message to oneself is not there");
	must(ddp_wait(&r), "wait");
	must(ddp_recv_async(c, b, 2, DDP_I32, rank, &r), "recv from oneself");
	rc = ddp_wait_timeout(&r, 0);
	if (rc != DDP_ERR_TIMEOUT || !r || ddp_test(r))
		DIE("what was not sent: %d", rc);
	must(ddp_send(c, a, 2, DDP_I32, rank), "send to oneself");
	must(ddp_wait(&r), "wait");
	if (b[0] != 9)
		DIE("a message to oneself has %d", b[0]);
}

static void all_of(ddp_comm *c)
{
	rank = ddp_rank(c);
	size = ddp_world_size(c);
	own(c);
	ring(c);
	all_at_once(c);
	must(ddp_barrier(c), "barrier");
}

int main(int argc, char **argv)
{
	ddp_comm *world, *group;

	must(ddp_init(&world, NULL), "ddp_init");
	rank = ddp_rank(world);
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "thread"))
			must(ddp_progress_start(world, -1), "progress_start");
	all_of(world);
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "groups")) {
			must(ddp_comm_split(world, rank % 2, -rank, &group),
			     "split");
			all_of(group);
			all_of(world);
			ddp_comm_free(group);
		}
	printf("rank %d of %d: ok\n", ddp_rank(world), ddp_world_size(world));
	ddp_finalize(world);
	return 0;
}

/* by_hand.c: how collectives are made: reduce and all_reduce written with send
 * and receive, timed against the library's own, and the time that a message
 * takes from one rank to another.
 *   ddprun --standalone --nproc-per-node 4 ./by_hand [elements] */
#include <ddp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 20, PINGS = 1000 };

struct job {
	ddp_comm *world;
	int rank, size;
	size_t count;
	float *mine, *sum, *came; /* count elements each */
};

static void must(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", ddp_last_error());
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void add(float *to, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

/* Rank 0 receives every rank's data and adds it up: all bytes pass through one
 * rank. */
static void reduce_by_hand(struct job *j)
{
	if (j->rank != 0) {
		must(ddp_send(j->world, j->mine, j->count, DDP_F32, 0));
		return;
	}
	memcpy(j->sum, j->mine, j->count * sizeof(float));
	for (int from = 1; from < j->size; from++) {
		must(ddp_recv(j->world, j->came, j->count, DDP_F32, from));
		add(j->sum, j->came, j->count);
	}
}

/* The element at which block b of `size` begins. */
static size_t begin_of(const struct job *j, int b)
{
	return j->count * (size_t)b / (size_t)j->size;
}

/* One turn of a ring: sends block `out` to the next rank and receives block
 * `in` from the previous rank, both at once. */
static void turn(struct job *j, int out, int in, float *into)
{
	int next = (j->rank + 1) % j->size;
	int before = (j->rank + j->size - 1) % j->size;
	ddp_request *r[2];

	must(ddp_send_async(j->world, j->sum + begin_of(j, out),
			    begin_of(j, out + 1) - begin_of(j, out), DDP_F32,
			    next, &r[0]));
	must(ddp_recv_async(j->world, into,
			    begin_of(j, in + 1) - begin_of(j, in), DDP_F32,
			    before, &r[1]));
	must(ddp_wait_all(r, 2));
}

/* The ring all-reduce (Patarasuk, Yuan 2009): each block travels around the
 * ring once to be added up and once to be handed out. */
static void all_reduce_by_hand(struct job *j)
{
	memcpy(j->sum, j->mine, j->count * sizeof(float));
	for (int k = 0; k < j->size - 1; k++) {
		int out = (j->rank - k + j->size) % j->size;
		int in = (j->rank - k - 1 + j->size) % j->size;

		turn(j, out, in, j->came);
		add(j->sum + begin_of(j, in), j->came,
		    begin_of(j, in + 1) - begin_of(j, in));
	}
	for (int k = 0; k < j->size - 1; k++) {
		int out = (j->rank + 1 - k + j->size) % j->size;
		int in = (j->rank - k + j->size) % j->size;

		turn(j, out, in, j->sum + begin_of(j, in));
	}
}

static void reduce(struct job *j)
{
	must(ddp_reduce(j->world, j->mine, j->sum, j->count, DDP_F32, DDP_SUM,
			0));
}

static void all_reduce(struct job *j)
{
	must(ddp_all_reduce(j->world, j->mine, j->sum, j->count, DDP_F32,
			    DDP_SUM));
}

/* Microseconds per round on rank 0. Checks the sum on rank 0, or, with
 * `everywhere`, on every rank. */
static double measure(struct job *j, void (*fn)(struct job *), int everywhere)
{
	float want = (float)j->size * (float)(j->size + 1) / 2;
	double start;

	fn(j); /* warm */
	must(ddp_barrier(j->world));
	start = now_us();
	for (int i = 0; i < ROUNDS; i++)
		fn(j);
	must(ddp_barrier(j->world));
	for (size_t i = 0; i < j->count && (everywhere || j->rank == 0); i++) {
		if (j->sum[i] == want)
			continue;
		fprintf(stderr, "rank %d: element %zu is %g, not %g\n", j->rank,
			i, (double)j->sum[i], (double)want);
		exit(1);
	}
	return (now_us() - start) / (double)ROUNDS;
}

/* Half of the round-trip time of a message to rank r. */
static double latency(struct job *j, int r)
{
	double start = now_us();
	char byte = 0;

	for (int i = 0; i < PINGS && j->rank == 0; i++) {
		must(ddp_send(j->world, &byte, 1, DDP_U8, r));
		must(ddp_recv(j->world, &byte, 1, DDP_U8, r));
	}
	for (int i = 0; i < PINGS && j->rank == r; i++) {
		must(ddp_recv(j->world, &byte, 1, DDP_U8, 0));
		must(ddp_send(j->world, &byte, 1, DDP_U8, 0));
	}
	must(ddp_barrier(j->world));
	return (now_us() - start) / (double)PINGS / 2;
}

int main(int argc, char **argv)
{
	static struct job j;
	double hand, own;

	j.count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1 << 20;
	must(ddp_init(&j.world, NULL));
	j.rank = ddp_rank(j.world);
	j.size = ddp_world_size(j.world);
	j.mine = (float *)malloc((j.count + 1) * sizeof(float));
	j.sum = (float *)malloc((j.count + 1) * sizeof(float));
	j.came = (float *)malloc((j.count + 1) * sizeof(float));
	if (!j.mine || !j.sum || !j.came)
		return 1;
	for (size_t i = 0; i < j.count; i++)
		j.mine[i] = (float)(j.rank + 1);
	hand = measure(&j, reduce_by_hand, 0);
	own = measure(&j, reduce, 0);
	if (j.rank == 0)
		printf("reduce      %zu x f32: by hand %.1f us, ddp_reduce "
		       "%.1f us\n", j.count, hand, own);
	hand = measure(&j, all_reduce_by_hand, 1);
	own = measure(&j, all_reduce, 1);
	if (j.rank == 0)
		printf("all_reduce  %zu x f32: by hand %.1f us, ddp_all_reduce "
		       "%.1f us\n", j.count, hand, own);
	for (int r = 1; r < j.size; r++) {
		double us = latency(&j, r);

		if (j.rank == 0)
			printf("latency     rank 0 to rank %d: %.2f us\n", r,
			       us);
	}
	free(j.mine);
	free(j.sum);
	free(j.came);
	ddp_finalize(j.world);
	return 0;
}

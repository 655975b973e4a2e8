/* bench_collectives: times collectives of floats with libddp, or, built with
 * -DWITH_MPI by an mpicc, with MPI: the same loop, sizes and checks for both.
 * Rank 0 prints for each: operation, bytes, "out" or "in" place, microseconds
 * a call (the ranks' mean, in the fastest of some windows), wrong elements.
 *
 *   bench_collectives [only this operation [only these bytes]]
 *
 * Those with a count for each rank, and all_to_all, only if they are named; the
 * counts are equal, to compare them with the calls with one count.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;

enum { RANKS_MAX = 256 };

/* n is the elements of the larger buffer of the two, as nccl-tests counts. */
#ifdef WITH_MPI
#include <mpi.h>

static void begin(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
}

static void end(void)
{
	MPI_Finalize();
}

static void all_reduce(const float *send, float *recv, size_t n)
{
	MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, (int)n,
		      MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(const float *send, float *recv, size_t n)
{
	(void)send;
	MPI_Bcast(recv, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_gather(const float *send, float *recv, size_t n)
{
	int part = (int)n / size, in_place = send == recv + rank * part;

	MPI_Allgather(in_place ? MPI_IN_PLACE : send, part, MPI_FLOAT, recv,
		      part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(const float *send, float *recv, size_t n)
{
	MPI_Reduce_scatter_block(send, recv, (int)n / size, MPI_FLOAT, MPI_SUM,
				 MPI_COMM_WORLD);
}

static void all_to_all(const float *send, float *recv, size_t n)
{
	MPI_Alltoall(send, (int)n / size, MPI_FLOAT, recv, (int)n / size,
		     MPI_FLOAT, MPI_COMM_WORLD);
}

static int counts[RANKS_MAX], begins[RANKS_MAX];

static void equal_counts(size_t n)
{
	for (int r = 0; r < size; r++) {
		counts[r] = (int)n / size;
		begins[r] = r * counts[r];
	}
}

static void all_gather_v(const float *send, float *recv, size_t n)
{
	equal_counts(n);
	MPI_Allgatherv(send, counts[rank], MPI_FLOAT, recv, counts, begins,
		       MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter_v(const float *send, float *recv, size_t n)
{
	equal_counts(n);
	MPI_Reduce_scatter(send, recv, counts, MPI_FLOAT, MPI_SUM,
			   MPI_COMM_WORLD);
}

static void all_to_all_v(const float *send, float *recv, size_t n)
{
	equal_counts(n);
	MPI_Alltoallv(send, counts, begins, MPI_FLOAT, recv, counts, begins,
		      MPI_FLOAT, MPI_COMM_WORLD);
}

static void ping_pong(const float *send, float *recv, size_t n)
{
	if (rank == 0) {
		MPI_Send(send, (int)n, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
		MPI_Recv(recv, (int)n, MPI_FLOAT, 1, 0, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
	} else if (rank == 1) {
		MPI_Recv(recv, (int)n, MPI_FLOAT, 0, 0, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		MPI_Send(send, (int)n, MPI_FLOAT, 0, 0, MPI_COMM_WORLD);
	}
}

static void barrier(const float *send, float *recv, size_t n)
{
	(void)send, (void)recv, (void)n;
	MPI_Barrier(MPI_COMM_WORLD);
}

static int64_t sum(int64_t mine)
{
	int64_t all;

	MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

#else
#include "worker-sdk/ddp.h"

static ddp_comm *world;

static void must(int rc)
{
	if (rc < 0) {
		fprintf(stderr, "rank %d: %s\n", rank, ddp_last_error());
		exit(1);
	}
}

static void begin(int argc, char **argv)
{
	(void)argc, (void)argv;
	must(ddp_init(&world, NULL));
	rank = ddp_rank(world);
	size = ddp_world_size(world);
}

static void end(void)
{
	ddp_finalize(world);
}

static void all_reduce(const float *send, float *recv, size_t n)
{
	must(ddp_all_reduce(world, send, recv, n, DDP_F32, DDP_SUM));
}

static void broadcast(const float *send, float *recv, size_t n)
{
	(void)send;
	must(ddp_broadcast(world, recv, n, DDP_F32, 0));
}

static void all_gather(const float *send, float *recv, size_t n)
{
	must(ddp_all_gather(world, send, recv, n / (size_t)size, DDP_F32));
}

static void reduce_scatter(const float *send, float *recv, size_t n)
{
	must(ddp_reduce_scatter(world, send, recv, n / (size_t)size, DDP_F32,
				DDP_SUM));
}

static void all_to_all(const float *send, float *recv, size_t n)
{
	must(ddp_all_to_all(world, send, recv, n / (size_t)size, DDP_F32));
}

static const size_t *equal_counts(size_t n)
{
	static size_t counts[RANKS_MAX];

	for (int r = 0; r < size; r++)
		counts[r] = n / (size_t)size;
	return counts;
}

static void all_gather_v(const float *send, float *recv, size_t n)
{
	must(ddp_all_gather_v(world, send, recv, equal_counts(n), DDP_F32));
}

static void reduce_scatter_v(const float *send, float *recv, size_t n)
{
	must(ddp_reduce_scatter_v(world, send, recv, equal_counts(n), DDP_F32,
				  DDP_SUM));
}

static void all_to_all_v(const float *send, float *recv, size_t n)
{
	const size_t *counts = equal_counts(n);

	must(ddp_all_to_all_v(world, send, counts, recv, counts, DDP_F32));
}

static void ping_pong(const float *send, float *recv, size_t n)
{
	if (rank == 0) {
		must(ddp_send(world, send, n, DDP_F32, 1));
		must(ddp_recv(world, recv, n, DDP_F32, 1));
	} else if (rank == 1) {
		must(ddp_recv(world, recv, n, DDP_F32, 0));
		must(ddp_send(world, send, n, DDP_F32, 0));
	}
}

static void barrier(const float *send, float *recv, size_t n)
{
	(void)send, (void)recv, (void)n;
	must(ddp_barrier(world));
}

static int64_t sum(int64_t mine)
{
	int64_t all;

	must(ddp_all_reduce(world, &mine, &all, 1, DDP_I64, DDP_SUM));
	return all;
}
#endif

enum { MIB = 1 << 20, LARGEST = 256 * MIB };
enum { WINDOW_US = 1000, WINDOWS = 40, BUDGET_US = 60000 };

/* Rank r's i-th float: small, so that every sum is exact. */
static float value(int r, size_t i)
{
	return (float)((r + 1) * (int)(i % 97 + 1));
}

static float value_sum(size_t i)
{
	return (float)(size * (size + 1) / 2 * (int)(i % 97 + 1));
}

static int right_sum(const float *recv, size_t n, size_t i)
{
	return recv[i] == value_sum(i);
}

static int right_broadcast(const float *recv, size_t n, size_t i)
{
	return recv[i] == value(0, i);
}

static int right_gather(const float *recv, size_t n, size_t i)
{
	size_t part = n / (size_t)size;

	return recv[i] == value((int)(i / part), i % part);
}

static int right_scatter(const float *recv, size_t n, size_t i)
{
	size_t part = n / (size_t)size;

	return i >= part || recv[i] == value_sum((size_t)rank * part + i);
}

static int right_to_all(const float *recv, size_t n, size_t i)
{
	size_t part = n / (size_t)size;

	return recv[i] == value((int)(i / part),
				(size_t)rank * part + i % part);
}

static int right_message(const float *recv, size_t n, size_t i)
{
	return rank > 1 || recv[i] == value(1 - rank, i);
}

static const struct operation {
	const char *name;
	void (*run)(const float *send, float *recv, size_t n);
	int (*right)(const float *recv, size_t n, size_t i);
	int splits;   /* a rank has a part of the buffer */
	int in_place; /* is timed so too */
	int halves;   /* there and back is two */
	int by_name;  /* is timed only if it is named */
	size_t bytes[20];
} operations[] = {
	{"all_reduce", all_reduce, right_sum, 0, 1, 0, 0,
	 {4, 16, 64, 256, 1024, 4096, 16384, 65536, MIB / 4, MIB, 4 * MIB,
	  16 * MIB, 64 * MIB, LARGEST}},
	{"broadcast", broadcast, right_broadcast, 0, 0, 0, 0,
	 {4, MIB, 64 * MIB}},
	{"all_gather", all_gather, right_gather, 1, 1, 0, 0,
	 {4, MIB, 64 * MIB}},
	{"reduce_scatter", reduce_scatter, right_scatter, 1, 0, 0, 0,
	 {4, MIB, 64 * MIB}},
	{"send/recv", ping_pong, right_message, 0, 0, 1, 0,
	 {4, MIB, 64 * MIB}},
#define BY_NAME(op, right)                                                    \
	{#op, op, right, 1, 0, 0, 1,                                          \
	 {4, 1024, 65536, MIB, 16 * MIB, 64 * MIB}}
	BY_NAME(all_gather_v, right_gather),
	BY_NAME(reduce_scatter_v, right_scatter),
	BY_NAME(all_to_all, right_to_all),
	BY_NAME(all_to_all_v, right_to_all),
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static double time_calls(const struct operation *o, const float *send,
			 float *recv, size_t n, int64_t calls)
{
	double start, mine;

	barrier(NULL, NULL, 0);
	start = now_us();
	for (int64_t i = 0; i < calls; i++)
		o->run(send, recv, n);
	mine = (now_us() - start) / (double)calls;
	if (o->halves) /* two ranks take part */
		return (double)sum(rank < 2 ? (int64_t)(mine * 1000) : 0) /
		       4000;
	return (double)sum((int64_t)(mine * 1000)) / 1000 / size;
}

/* The fastest of some windows, so that what else the machine does counts less:
 * short ones, which fit between its turns. All ranks compute the same mean, so
 * they agree how often to call. */
static double measure(const struct operation *o, const float *send, float *recv,
		      size_t n)
{
	double one = time_calls(o, send, recv, n, 1), best, spent = 0;
	int64_t calls;

	one = time_calls(o, send, recv, n, one < 1000 ? 10 : 1);
	calls = (int64_t)(WINDOW_US / (one > 0.1 ? one : 0.1)) + 1;
	best = one;
	for (int i = 0; i < 2 || (i < WINDOWS && spent < BUDGET_US); i++) {
		double us = time_calls(o, send, recv, n, calls);

		spent += us * (double)calls;
		best = us < best ? us : best;
	}
	return best;
}

static int64_t count_wrong(const struct operation *o, const float *recv,
			   size_t n)
{
	int64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += !o->right(recv, n, i);
	return sum(wrong);
}

static void fill(float *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = value(rank, i);
}

static void out_of_place(const struct operation *o, size_t n, const float *send,
			 float *recv)
{
	double us;
	int64_t wrong;

	memset(recv, 0, n * sizeof(*recv));
	if (rank == 0 && o->run == broadcast)
		fill(recv, n);
	us = measure(o, send, recv, n);
	wrong = count_wrong(o, recv, n);
	if (rank == 0)
		printf("%s %zu out %.3f %lld\n", o->name, n * sizeof(*recv), us,
		       (long long)wrong);
}

/* Timed with zeros, whose sum stays what it is, then checked once. */
static void in_place(const struct operation *o, size_t n, float *recv)
{
	size_t part = n / (size_t)size;
	float *send = o->splits ? recv + (size_t)rank * part : recv;
	double us;
	int64_t wrong;

	memset(recv, 0, n * sizeof(*recv));
	us = measure(o, send, recv, n);
	fill(send, o->splits ? part : n);
	o->run(send, recv, n);
	wrong = count_wrong(o, recv, n);
	if (rank == 0)
		printf("%s %zu in %.3f %lld\n", o->name, n * sizeof(*recv), us,
		       (long long)wrong);
}

int main(int argc, char **argv)
{
	static const struct operation meet = {"barrier", barrier};
	const char *only = argc > 1 ? argv[1] : NULL;
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	float *send = malloc(LARGEST), *recv = malloc(LARGEST);
	double us;

	begin(argc, argv);
	if (!send || !recv)
		return 1;
	fill(send, LARGEST / sizeof(*send));
	if (!only || strcmp(only, meet.name) == 0) {
		us = measure(&meet, send, recv, 0);
		if (rank == 0)
			printf("barrier 0 out %.3f 0\n", us);
	}
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++) {
		const struct operation *o = &operations[i];

		if (only ? strcmp(only, o->name) != 0 : o->by_name)
			continue;
		for (const size_t *b = o->bytes; *b; b++) {
			size_t n = *b / sizeof(float);

			if (bytes && bytes != *b)
				continue;
			if (o->splits) /* whole parts, at least of one */
				n = n < (size_t)size ? (size_t)size
						     : n / (size_t)size *
							       (size_t)size;
			out_of_place(o, n, send, recv);
			if (o->in_place)
				in_place(o, n, recv);
		}
	}
	fflush(stdout);
	end();
	free(send);
	free(recv);
	return 0;
}

/* bench_collectives: times collectives of floats with libddp, or, built with
 * -DWITH_MPI by mpicc, with MPI: the same loop, sizes and checks for both.
 * Rank 0 prints for each: operation, bytes, microseconds, wrong elements. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, size;

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
	MPI_Allreduce(send, recv, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(const float *send, float *recv, size_t n)
{
	(void)send;
	MPI_Bcast(recv, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_gather(const float *send, float *recv, size_t n)
{
	int part = (int)n / size;

	MPI_Allgather(send, part, MPI_FLOAT, recv, part, MPI_FLOAT,
		      MPI_COMM_WORLD);
}

static void reduce_scatter(const float *send, float *recv, size_t n)
{
	MPI_Reduce_scatter_block(send, recv, (int)n / size, MPI_FLOAT, MPI_SUM,
				 MPI_COMM_WORLD);
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

enum { MIB = 1 << 20, LARGEST = 64 * MIB, WINDOW_US = 100000 };

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

	return i >= part * (size_t)size ||
	       recv[i] == value((int)(i / part), i % part);
}

static int right_scatter(const float *recv, size_t n, size_t i)
{
	size_t part = n / (size_t)size;

	return i >= part || recv[i] == value_sum((size_t)rank * part + i);
}

static const struct operation {
	const char *name;
	void (*run)(const float *send, float *recv, size_t n);
	int (*right)(const float *recv, size_t n, size_t i);
	size_t bytes[8]; /* of the whole buffer, as nccl-tests counts; 0 ends */
} operations[] = {
	{"all_reduce", all_reduce, right_sum,
	 {4, 4096, 65536, MIB, 16 * MIB, 64 * MIB}},
	{"broadcast", broadcast, right_broadcast, {MIB, 64 * MIB}},
	{"all_gather", all_gather, right_gather, {MIB, 64 * MIB}},
	{"reduce_scatter", reduce_scatter, right_scatter, {MIB, 64 * MIB}},
};

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Microseconds a call takes, the mean over the ranks. */
static double time_calls(void (*run)(const float *, float *, size_t),
			 const float *send, float *recv, size_t n,
			 int64_t calls)
{
	barrier(NULL, NULL, 0);
	double start = now_us();
	for (int64_t i = 0; i < calls; i++)
		run(send, recv, n);
	double mine = (now_us() - start) / (double)calls;
	return (double)sum((int64_t)(mine * 1000)) / 1000 / size;
}

static double measure(void (*run)(const float *, float *, size_t),
		      const float *send, float *recv, size_t n)
{
	run(send, recv, n);
	double one = time_calls(run, send, recv, n, 3);
	/* all ranks computed the same mean, so they agree on the count */
	int64_t calls = (int64_t)(WINDOW_US / (one > 0.1 ? one : 0.1));

	return time_calls(run, send, recv, n,
			  calls < 3 ? 3 : calls > 20000 ? 20000 : calls);
}

static int64_t count_wrong(const struct operation *o, const float *recv,
			   size_t n)
{
	int64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += !o->right(recv, n, i);
	return sum(wrong);
}

static void row(const struct operation *o, size_t bytes, const float *send,
		float *recv)
{
	size_t n = bytes / sizeof(float);

	memset(recv, 0, bytes);
	if (rank == 0 && o->run == broadcast)
		memcpy(recv, send, bytes);
	double us = measure(o->run, send, recv, n);
	int64_t wrong = count_wrong(o, recv, n);
	if (rank == 0)
		printf("%s %zu %.3f %lld\n", o->name, bytes, us,
		       (long long)wrong);
}

int main(int argc, char **argv)
{
	float *send = malloc(LARGEST), *recv = malloc(LARGEST);

	begin(argc, argv);
	if (!send || !recv)
		return 1;
	for (size_t i = 0; i < LARGEST / sizeof(float); i++)
		send[i] = value(rank, i);
	double us = measure(barrier, send, recv, 0);
	if (rank == 0)
		printf("barrier 0 %.3f 0\n", us);
	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		for (const size_t *b = operations[i].bytes; *b; b++)
			row(&operations[i], *b, send, recv);
	fflush(stdout);
	end();
	free(send);
	free(recv);
	return 0;
}

/* gpu_bench.c: compares all_reduce of floats through libddp with NCCL's own
 * call, alternately in one program: nccl-tests' columns, and the ratio.
 * Measures calls queued in a stream, as in training, and single calls with a
 * wait after each. Prints medians of alternating rounds. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker-sdk/ddp.h"

enum { ROUNDS = 15, LARGEST = 256 << 20 };

static ddp_comm *world;
static ncclComm_t raw;
static cudaStream_t stream;
static float *send, *recv;

#define DIE(...)                                                              \
	(fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), exit(1))

static void must(int rc, const char *what)
{
	if (rc)
		DIE("%s: %d: %s", what, rc, ddp_last_error());
}

static void cu(cudaError_t rc)
{
	if (rc != cudaSuccess)
		DIE("CUDA: %s", cudaGetErrorString(rc));
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void by_nccl(size_t n)
{
	if (ncclAllReduce(send, recv, n, ncclFloat32, ncclSum, raw, stream))
		DIE("ncclAllReduce: %s", ncclGetLastError(NULL));
}

static void by_ddp(size_t n)
{
	must(ddp_all_reduce(world, send, recv, n, DDP_F32, DDP_SUM),
	     "all_reduce");
}

/* The us of one call, measured over `calls` of them. Waits at the end, or after
 * each. */
static double measure(void (*one)(size_t), size_t n, int calls, int each)
{
	double begun;

	must(ddp_barrier(world), "barrier");
	cu(cudaStreamSynchronize(stream));
	begun = now_us();
	for (int i = 0; i < calls; i++) {
		one(n);
		if (each)
			cu(cudaStreamSynchronize(stream));
	}
	cu(cudaStreamSynchronize(stream));
	return (now_us() - begun) / calls;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Measures libddp and NCCL alternately; *ddp and *nccl are the medians. */
static void compare(size_t n, int calls, int each, double *ddp, double *nccl)
{
	double a[ROUNDS], b[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		if (i % 2)
			a[i] = measure(by_ddp, n, calls, each);
		b[i] = measure(by_nccl, n, calls, each);
		if (i % 2 == 0)
			a[i] = measure(by_ddp, n, calls, each);
	}
	qsort(a, ROUNDS, sizeof(*a), by_value);
	qsort(b, ROUNDS, sizeof(*b), by_value);
	*ddp = a[ROUNDS / 2];
	*nccl = b[ROUNDS / 2];
}

static void line(size_t bytes, const char *how, int each)
{
	int size = ddp_world_size(world);
	int calls = bytes > 16 << 20 ? 5 : bytes > 1 << 20 ? 20 : 50;
	double ddp, nccl, algbw;

	measure(by_ddp, bytes / 4, 2, 0);
	measure(by_nccl, bytes / 4, 2, 0);
	compare(bytes / 4, calls, each, &ddp, &nccl);
	algbw = (double)bytes / ddp / 1e3;
	if (ddp_rank(world) == 0)
		printf("%12zu %12zu  %-8s %10.2f %10.2f %8.2f %8.2f  %6.3f\n",
		       bytes, bytes / 4, how, nccl, ddp, algbw,
		       algbw * 2 * (size - 1) / size, ddp / nccl);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t largest = argc > 1 ? strtoul(argv[1], NULL, 10) : LARGEST;
	struct ddp_options o = {.backend = "nccl"};
	ncclUniqueId id;

	must(ddp_init(&world, &o), "ddp_init");
	must(ddp_nccl_unique_id(world, &id, sizeof(id)), "unique_id");
	if (ncclCommInitRank(&raw, ddp_world_size(world), id, ddp_rank(world)))
		DIE("ncclCommInitRank: %s", ncclGetLastError(NULL));
	cu(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	cu(cudaMalloc((void **)&send, LARGEST));
	cu(cudaMalloc((void **)&recv, LARGEST));
	cu(cudaMemset(send, 0, LARGEST));
	must(ddp_set_stream(world, stream), "set_stream");
	if (ddp_rank(world) == 0)
		printf("# all_reduce, float, sum, %d ranks\n"
		       "# %10s %12s  %-8s %10s %10s %8s %8s  %6s\n",
		       ddp_world_size(world), "size(B)", "count", "how",
		       "nccl(us)", "libddp(us)", "algbw", "busbw", "ratio");
	if (largest > LARGEST)
		largest = LARGEST;
	for (size_t bytes = 8; bytes <= largest; bytes *= 8) {
		line(bytes, "queued", 0);
		line(bytes, "awaited", 1);
	}
	must(ddp_barrier(world), "barrier");
	cu(cudaStreamSynchronize(stream));
	ncclCommDestroy(raw);
	ddp_finalize(world);
	return 0;
}

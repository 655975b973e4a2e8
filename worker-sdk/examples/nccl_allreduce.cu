/* nccl_allreduce.cu: a CUDA program with NCCL calls of its own that ddprun, or
 * anything else that libddp starts under, starts: libddp meets the other ranks
 * and gives the program an id, or a communicator that is ready.
 *
 *   nvcc -o nccl_allreduce nccl_allreduce.cu -lddp -lnccl
 *   ddprun --standalone --nproc-per-node 2 ./nccl_allreduce
 */
#include <cuda_runtime.h>
#include <ddp.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                           \
	do {                                                                  \
		int rc_ = (int)(call);                                        \
		if (rc_) {                                                    \
			fprintf(stderr, "%s:%d: %s: %d: %s\n", __FILE__,      \
				__LINE__, #call, rc_, ddp_last_error());      \
			exit(1);                                              \
		}                                                             \
	} while (0)

__global__ void fill(float *x, int n, float value)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < n)
		x[i] = value;
}

int main(void)
{
	/* libddp itself must not use a GPU here */
	const struct ddp_options options = {"cpu", 0};
	const int n = 1 << 20;
	ncclUniqueId id;
	ncclComm_t comm;
	cudaStream_t stream;
	ddp_comm *world;
	float *x, first;
	int devices, rank, size;

	/* three lines from the launcher's environment to a communicator */
	CHECK(ddp_init(&world, &options));
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	CHECK(cudaGetDeviceCount(&devices));
	CHECK(cudaSetDevice(ddp_local_rank(world) % devices));
	CHECK(ddp_nccl_unique_id(world, &id, sizeof(id)));
	CHECK(ncclCommInitRank(&comm, size, id, rank));

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc(&x, n * sizeof(float)));
	fill<<<(n + 255) / 256, 256, 0, stream>>>(x, n, (float)(rank + 1));
	CHECK(cudaGetLastError());
	CHECK(ncclAllReduce(x, x, n, ncclFloat, ncclSum, comm, stream));
	CHECK(cudaMemcpyAsync(&first, x, sizeof(first), cudaMemcpyDefault,
			      stream));
	CHECK(cudaStreamSynchronize(stream));
	printf("rank %d of %d: %g, expected %g\n", rank, size, first,
	       size * (size + 1) / 2.0);
	CHECK(first != (float)(size * (size + 1) / 2.0));

	ncclCommDestroy(comm);
	CHECK(ddp_barrier(world)); /* leave together */
	ddp_finalize(world);
	return 0;
}

/* on_host.h: runs the kernels of trainers/cuda on the CPU, block after block,
 * with a context for each thread of a block, to check their arithmetic, their
 * places in memory and their barriers. C++ includes it before a .cu file, C
 * only for its last part. It ends the program if threads of a block wait for a
 * thread that has left, or for each other. */
#ifndef TESTS_ON_HOST_H
#define TESTS_ON_HOST_H

#ifdef __cplusplus
#include <stdint.h>
#include <string.h>

#include <functional>

struct dim3 {
	unsigned x, y, z;

	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
		: x(a), y(b), z(c)
	{
	}
};

struct alignas(16) words4 {
	uint32_t x, y, z, w;
};

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

void __syncthreads(void);
/* The value from the lane whose number differs from this one's by d. */
uint64_t on_host_exchange(uint64_t mine, int d);

template <typename T> T __shfl_xor_sync(unsigned lanes, T v, int d)
{
	uint64_t mine = 0, theirs;

	memcpy(&mine, &v, sizeof(v));
	theirs = on_host_exchange(mine, d);
	memcpy(&v, &theirs, sizeof(v));
	return v;
}

/* Threads take turns. */
static inline unsigned long long atomicMax(unsigned long long *p,
					   unsigned long long v)
{
	unsigned long long old = *p;

	*p = old > v ? old : v;
	return old;
}

void on_host_launch(dim3 grid, dim3 block, const std::function<void()> &kernel);

/* A kernel's arguments are copied at its launch, whenever it runs. */
template <typename K, typename... A>
void on_host_call(dim3 grid, dim3 block, K kernel, A... arguments)
{
	on_host_launch(grid, block, [=]() { kernel(arguments...); });
}

#define LAUNCH(kernel, grid, block, stream, ...)                              \
	on_host_call(dim3(grid), dim3(block), kernel, __VA_ARGS__)
#define LAUNCHED() 0

extern "C" {
#endif

/* 1: the last thread of a block runs first. A result that changes lacks a
 * barrier. */
extern int on_host_backwards;

#ifdef __cplusplus
}
#endif
#endif

/* on_host.h: runs the kernels of trainers/cuda on the CPU, block after block,
 * each thread of a block a context of its own: for their arithmetic, their
 * places in memory and their barriers. C++ includes it before a .cu file, C for
 * what is at the end. It ends the program where threads of a block wait for
 * one that has left, or for each other. */
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
/* What the lane says that differs from this one's number by d. */
uint64_t on_host_exchange(uint64_t mine, int d);

template <typename T> T __shfl_xor_sync(unsigned lanes, T v, int d)
{
	uint64_t mine = 0, theirs;

	memcpy(&mine, &v, sizeof v);
	theirs = on_host_exchange(mine, d);
	memcpy(&v, &theirs, sizeof v);
	return v;
}

void on_host_launch(dim3 grid, dim3 block, const std::function<void()> &kernel);

/* Arguments are taken when a kernel is launched, whenever it runs. */
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

/* 1: the last thread of a block goes first. What depends on it lacks a
 * barrier. */
extern int on_host_backwards;

#ifdef __cplusplus
}
#endif
#endif

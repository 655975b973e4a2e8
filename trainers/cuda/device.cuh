/* device.cuh: shared by the kernels: conversion between 16 bytes of a tensor
 * and values, indices, launches. Also compiles for the host, where a test
 * defines LAUNCH. */
#ifndef TRAINERS_CUDA_DEVICE_CUH
#define TRAINERS_CUDA_DEVICE_CUH

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trainers/cuda/kernels.h"

#ifdef __CUDACC__
typedef uint4 words4;
#define LAUNCH(kernel, grid, block, stream, ...)                              \
	kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#define LAUNCHED() ((int)cudaGetLastError())
#endif

/* Launches the kernel's variant for bf16 or for f32 tensors. */
#define LAUNCH_TYPED(bf16, kernel, ...)                                       \
	do {                                                                  \
		if (bf16)                                                     \
			LAUNCH(kernel<uint16_t>, __VA_ARGS__);                \
		else                                                          \
			LAUNCH(kernel<float>, __VA_ARGS__);                   \
	} while (0)

static __device__ inline float float_of(uint32_t u)
{
#ifdef __CUDA_ARCH__
	return __uint_as_float(u);
#else
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
#endif
}

static __device__ inline uint32_t bits_of(float f)
{
#ifdef __CUDA_ARCH__
	return __float_as_uint(f);
#else
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	return u;
#endif
}

static __device__ inline bool is_finite(float f)
{
	return (bits_of(f) & 0x7f800000u) != 0x7f800000u;
}

/* Rounds to bf16, to nearest even; NaN stays NaN. */
static __device__ inline uint32_t narrow(float f)
{
	uint32_t u = bits_of(f);

	if ((u & 0x7fffffffu) > 0x7f800000u)
		return 0x7fffu;
	return (u + 0x7fffu + (u >> 16 & 1)) >> 16;
}

/* Rounds two values to bf16, the first into the lower half. */
static __device__ inline uint32_t narrow2(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint32_t w;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
	return w;
#else
	return narrow(low) | narrow(high) << 16;
#endif
}

/* Loads 16 bytes as they are. A kernel that fetches several before it unpacks
 * the first waits for memory once instead of several times. */
static __device__ inline words4 fetch(const void *p, size_t i)
{
	return ((const words4 *)p)[i];
}

/* Keeps the compiler from moving fetches down to where they are used. */
static __device__ inline void fetched(void)
{
	asm volatile("" ::: "memory");
}

/* 16 bytes of a tensor as N values of type T: float for f32 tensors, uint16_t
 * for bf16 ones. i is an index in units of 16 bytes. */
template <typename T> struct pack;

template <> struct pack<float> {
	enum { N = 4 };
	typedef uint32_t places; /* a byte for each value */

	static __device__ void unpack(float *v, words4 w)
	{
		v[0] = float_of(w.x);
		v[1] = float_of(w.y);
		v[2] = float_of(w.z);
		v[3] = float_of(w.w);
	}

	static __device__ void load(float *v, const void *p, size_t i)
	{
		unpack(v, fetch(p, i));
	}

	static __device__ void store(const float *v, void *p, size_t i)
	{
		words4 w;

		w.x = bits_of(v[0]);
		w.y = bits_of(v[1]);
		w.z = bits_of(v[2]);
		w.w = bits_of(v[3]);
		((words4 *)p)[i] = w;
	}
};

template <> struct pack<uint16_t> {
	enum { N = 8 };
	typedef uint64_t places;

	static __device__ void unpack(float *v, words4 w)
	{
		v[0] = float_of(w.x << 16);
		v[1] = float_of(w.x & 0xffff0000u);
		v[2] = float_of(w.y << 16);
		v[3] = float_of(w.y & 0xffff0000u);
		v[4] = float_of(w.z << 16);
		v[5] = float_of(w.z & 0xffff0000u);
		v[6] = float_of(w.w << 16);
		v[7] = float_of(w.w & 0xffff0000u);
	}

	static __device__ void load(float *v, const void *p, size_t i)
	{
		unpack(v, fetch(p, i));
	}

	static __device__ void store(const float *v, void *p, size_t i)
	{
		words4 w;

		w.x = narrow2(v[0], v[1]);
		w.y = narrow2(v[2], v[3]);
		w.z = narrow2(v[4], v[5]);
		w.w = narrow2(v[6], v[7]);
		((words4 *)p)[i] = w;
	}
};

/* Loads N floats of an array with one float per channel. */
template <int N>
static __device__ inline void load_floats(float *v, const float *p, size_t at)
{
	for (int i = 0; i < N; i += 4)
		pack<float>::load(v + i, p, (at + i) / 4);
}

/* The thread's index in the grid, and the number of threads. */
static __device__ inline size_t thread_at(void)
{
	return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ inline size_t thread_count(void)
{
	return (size_t)gridDim.x * blockDim.x;
}

enum { BLOCK = 256, BLOCKS_MAX = 4096 };

/* The number of blocks for this many threads; kernels loop over the rest. At
 * least one, because a grid must not be empty. */
static inline unsigned blocks_for(size_t threads)
{
	size_t n = (threads + BLOCK - 1) / BLOCK;

	return n < 1 ? 1 : n > BLOCKS_MAX ? (unsigned)BLOCKS_MAX : (unsigned)n;
}

#endif

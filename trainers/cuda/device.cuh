/* device.cuh: shared by the kernels: conversion between 16 bytes of a tensor
 * and values, indices, launches. Also compiles for the host, where a test
 * defines LAUNCH. */
#ifndef TRAINERS_CUDA_DEVICE_CUH
#define TRAINERS_CUDA_DEVICE_CUH

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "trainers/cuda/half.h"
#include "trainers/cuda/kernels.h"

#ifdef __CUDACC__
typedef uint4 words4;
#define LAUNCH(kernel, grid, block, stream, ...)                              \
	kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#define LAUNCHED() ((int)cudaGetLastError())
#endif

/* What stands for a type in templates; see pack. */
typedef uint16_t bf16;
typedef int16_t fp16;

/* Launches the kernel's variant for a type of 16 bits. */
#define LAUNCH_NARROW(type, kernel, ...)                                      \
	do {                                                                  \
		if ((type) == KERNEL_F16)                                     \
			LAUNCH(kernel<fp16>, __VA_ARGS__);                    \
		else                                                          \
			LAUNCH(kernel<bf16>, __VA_ARGS__);                    \
	} while (0)
/* For any type. */
#define LAUNCH_TYPED(type, kernel, ...)                                       \
	do {                                                                  \
		if ((type) == KERNEL_F32)                                     \
			LAUNCH(kernel<float>, __VA_ARGS__);                   \
		else                                                          \
			LAUNCH_NARROW(type, kernel, __VA_ARGS__);             \
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

/* Rounds two values, the first into the lower half. */
template <typename T>
static __device__ inline uint32_t narrow2(float low, float high);

template <>
__device__ inline uint32_t narrow2<bf16>(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint32_t w;

	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
	return w;
#else
	return narrow(low) | narrow(high) << 16;
#endif
}

template <>
__device__ inline uint32_t narrow2<fp16>(float low, float high)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
	uint32_t w;

	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
	return w;
#else
	return half_round(low) | (uint32_t)half_round(high) << 16;
#endif
}

/* The two values of a word. */
template <typename T>
static __device__ inline void widen2(float *v, uint32_t w);

template <> __device__ inline void widen2<bf16>(float *v, uint32_t w)
{
	v[0] = float_of(w << 16);
	v[1] = float_of(w & 0xffff0000u);
}

template <> __device__ inline void widen2<fp16>(float *v, uint32_t w)
{
#ifdef __CUDA_ARCH__
	asm("{\n\t"
	    ".reg .b16 low, high;\n\t"
	    "mov.b32 {low, high}, %2;\n\t"
	    "cvt.f32.f16 %0, low;\n\t"
	    "cvt.f32.f16 %1, high;\n\t"
	    "}"
	    : "=f"(v[0]), "=f"(v[1])
	    : "r"(w));
#else
	v[0] = half_value((uint16_t)w);
	v[1] = half_value((uint16_t)(w >> 16));
#endif
}

/* The same for one value. */
template <typename T> static __device__ inline uint16_t narrow1(float f)
{
	return (uint16_t)narrow2<T>(f, 0);
}

template <typename T> static __device__ inline float widen1(uint16_t u)
{
	float v[2];

	widen2<T>(v, u);
	return v[0];
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

/* 16 bytes of a tensor as N values of type T: float, bf16 or fp16. i is an
 * index in units of 16 bytes. */
template <typename T> struct pack {
	enum { N = 8 };
	typedef uint64_t places; /* a byte for each value */

	static __device__ void unpack(float *v, words4 w)
	{
		widen2<T>(v, w.x);
		widen2<T>(v + 2, w.y);
		widen2<T>(v + 4, w.z);
		widen2<T>(v + 6, w.w);
	}

	static __device__ void load(float *v, const void *p, size_t i)
	{
		unpack(v, fetch(p, i));
	}

	static __device__ void store(const float *v, void *p, size_t i)
	{
		words4 w;

		w.x = narrow2<T>(v[0], v[1]);
		w.y = narrow2<T>(v[2], v[3]);
		w.z = narrow2<T>(v[4], v[5]);
		w.w = narrow2<T>(v[6], v[7]);
		((words4 *)p)[i] = w;
	}
};

template <> struct pack<float> {
	enum { N = 4 };
	typedef uint32_t places;

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

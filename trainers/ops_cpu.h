/* ops_cpu.h: what the files of the CPU twin share among themselves. */
#ifndef TRAINERS_OPS_CPU_H
#define TRAINERS_OPS_CPU_H

#include "trainers/ops.h"

/* A loop compiled once per level of x86-64, picked at load time. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MULTIVERSION                                                           \
	__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3",       \
				     "default")))
#else
#define MULTIVERSION
#endif

/* In such a loop a * b + c may be rounded once, where the level can. */
#if defined(__GNUC__) && !defined(__clang__)
#define FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define FUSED
#endif

/* y += bias, then ReLU. */
void ops_cpu_bias_relu(int n, int out, int relu, const float *restrict bias,
		       float *restrict y);
/* dy *= (y > 0) where there is a ReLU, and the sums of dy's columns. */
void ops_cpu_mask_and_sum(int n, int out, int relu, const float *restrict y,
			  float *restrict dy, float *restrict sum);

/* The entries of struct ops. */
size_t ops_cpu_sparse_room(int n, size_t size);
void ops_cpu_sparse_forward(const struct linear *l, int n,
			    const struct samples *s, const uint32_t *index,
			    void *room, float *y);
void ops_cpu_sparse_backward(const struct linear *l, int n,
			     const struct samples *s, const uint32_t *index,
			     void *room, const float *y, float *dy);

#endif

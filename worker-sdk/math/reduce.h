/* reduce.h: element-wise reduction of arrays, vectorised for this CPU. Pure:
 * knows types and operations, not ranks. Buffers may have any alignment. The
 * same sources give the same bits with every instruction set, at any address;
 * of several NaNs the first is the result. Integer sums and products wrap; an
 * average of integers is that of the wrapped sum, rounded towards zero. In min
 * and max a NaN wins over every number. */
#ifndef SDK_REDUCE_H
#define SDK_REDUCE_H

#include <stddef.h>

#include "worker-sdk/ddp.h"

/* dst[i] = src[0][i] op src[1][i] op ... in that order. dst may be src[0] or
 * src[1], but no other source. n >= 1. DDP_AVG divides by `divisor` at the
 * end; with 1 it is a sum. f16 and bf16 are reduced in f32 and rounded once, at
 * the end, to nearest even. DDP_BAND and DDP_BOR are for integers. */
void ddp__reduce(void *dst, const void *const *src, int n, size_t count,
		 enum ddp_type type, enum ddp_op op, int divisor);

/* As ddp__reduce; with `stream` the stores bypass the caches (copy.h describes
 * when that pays). */
void ddp__reduce_stream(void *dst, const void *const *src, int n, size_t count,
			enum ddp_type type, enum ddp_op op, int divisor,
			int stream);

/* 1 if hosts scale the sums that they pass on: a sum of f16 values may overflow
 * although their average does not. */
static inline int ddp__is_scaled(enum ddp_type type, enum ddp_op op)
{
	return op == DDP_AVG && (type == DDP_F16 || type == DDP_BF16);
}

/* The divisor of a sum of `ranks` ranks: the least power of two with which the
 * sum fits if each of its terms does. The division is exact, except where f16
 * has no smaller steps. */
static inline int ddp__scale_of(int ranks)
{
	int scale = 1;

	while (scale < ranks)
		scale *= 2;
	return scale;
}

/* src[k] is the scaled sum of ranks[k] ranks, and dst becomes the scaled sum of
 * all; with a divisor above 1, dst becomes their unscaled sum, divided by it.
 * f16 or bf16, in f32, rounded once. n >= 2; dst may be src[0] or src[1]. */
void ddp__add_scaled(void *dst, const void *const *src, const int *ranks,
		     int n, size_t count, enum ddp_type type, int divisor);

#endif

/* reduce.h: element-wise reduction of arrays, vectorised for the CPU that we
 * run on. Pure: knows types and operations, not ranks. Buffers may have any
 * alignment. The same sources give the same bits with every instruction set,
 * but for the payload of a NaN.
 *
 * Integer sums and products wrap; an average of integers is that of the wrapped
 * sum, rounded towards zero. A NaN wins over every number in min and max. */
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

/* As ddp__reduce, but with `stream` the result is written past the caches
 * (copy.h says when that is good). */
void ddp__reduce_stream(void *dst, const void *const *src, int n, size_t count,
			enum ddp_type type, enum ddp_op op, int divisor,
			int stream);

/* buf[i] /= by, as DDP_AVG does at its end; by > 0. */
void ddp__divide(void *buf, size_t count, enum ddp_type type, int by);

#endif

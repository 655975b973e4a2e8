/* reduce.h: element-wise reduction of arrays, vectorised for the CPU that we
 * run on. Pure: knows types and operations, not ranks. Buffers may have any
 * alignment. A NaN wins over every number in min and max. */
#ifndef SDK_REDUCE_H
#define SDK_REDUCE_H

#include <stddef.h>

#include "worker-sdk/ddp.h"

struct ddp__kernels {
	const char *isa; /* "avx512", "avx2", "base" */
	/* dst[i] = a[i] op b[i]; dst may be a or b. DDP_AVG adds. */
	void (*combine[DDP_TYPES][DDP_OPS])(void *dst, const void *a,
					    const void *b, size_t n);
	/* buf[i] /= by, integers towards zero; by > 0 */
	void (*divide[DDP_TYPES])(void *buf, size_t n, int by);
};

/* The best set for this CPU. */
const struct ddp__kernels *ddp__kernels(void);
/* Every set that this CPU can run, best first; returns how many (at most 3). */
int ddp__kernels_usable(const struct ddp__kernels *out[3]);

/* dst[i] = src[0][i] op src[1][i] op ... in that order, so that the same
 * sources give the same bits everywhere. dst may be src[0] or src[1], but no
 * other source. n >= 1. DDP_AVG divides by `divisor` at the end; with 1 it is
 * a sum. */
void ddp__reduce(void *dst, const void *const *src, int n, size_t count,
		 enum ddp_type type, enum ddp_op op, int divisor);

#endif

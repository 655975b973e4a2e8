/* kernels.h: the inner loops of reduce.c, compiled once for each instruction
 * set (kernels_base.c and the files like it, all from kernels_isa.h). Pure.
 * Buffers may have any alignment. */
#ifndef SDK_KERNELS_H
#define SDK_KERNELS_H

#include <stddef.h>

#include "worker-sdk/ddp.h"

/* The types in which values are reduced; f16 and bf16 use F32. Bitwise
 * operations do not depend on the type: they use U8. */
enum ddp__lane {
	DDP__LANE_F32,
	DDP__LANE_F64,
	DDP__LANE_I32,
	DDP__LANE_I64,
	DDP__LANE_I8,
	DDP__LANE_U8,
	DDP__LANES
};

enum { DDP__FAN = 4 }; /* sources that a kernel takes in one pass */

struct ddp__kernels {
	const char *isa; /* "avx512", "avx2", "base" */
	/* dst[i] = src[0][i] op src[1][i] ...; n is 2 to DDP__FAN; dst may be
	 * one of the sources. DDP_AVG adds. Only DDP__LANE_U8 has the bitwise
	 * operations. */
	void (*reduce[DDP__LANES])(void *dst, const void *const *src, int n,
				   size_t count, enum ddp_op op);
	/* As reduce with DDP_AVG, then divided by `by`, a power of two, in the
	 * same pass: the bits of reduce and divide. NULL for integers. */
	void (*average[DDP__LANES])(void *dst, const void *const *src, int n,
				    size_t count, int by);
	/* buf[i] /= by, integers towards zero; by > 0 */
	void (*divide[DDP__LANES])(void *buf, size_t count, int by);
	/* dst[i] = a[i] * x + b[i] * y, each rounded; dst may be a or b */
	void (*mix)(float *dst, const float *a, float x, const float *b,
		    float y, size_t count);
	void (*from_f16)(float *to, const void *from, size_t count);
	void (*to_f16)(void *to, const float *from, size_t count);
	void (*from_bf16)(float *to, const void *from, size_t count);
	void (*to_bf16)(void *to, const float *from, size_t count);
};

/* The fastest set that this CPU can run. */
const struct ddp__kernels *ddp__kernels(void);
/* Every set that this CPU can run, fastest first; returns how many. */
int ddp__kernels_usable(const struct ddp__kernels *out[3]);
/* For tests and benchmarks: from now on ddp__kernels returns this set; NULL:
 * the fastest again. */
void ddp__kernels_choose(const struct ddp__kernels *k);

extern const struct ddp__kernels ddp__kernels_base;
#ifdef __x86_64__
extern const struct ddp__kernels ddp__kernels_avx2;
extern const struct ddp__kernels ddp__kernels_avx512;
#endif

#endif

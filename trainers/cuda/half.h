/* half.h: fp16 by integer arithmetic, for hosts, and for GPUs before those that
 * the trainers compute fp16 on. Pure. */
#ifndef TRAINERS_CUDA_HALF_H
#define TRAINERS_CUDA_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_FN static inline __host__ __device__
#else
#define HALF_FN static inline
#endif

/* The nearest number of fp16, ties to even; above 65504 infinity; NaN is
 * 0x7fff, as cvt.rn.f16.f32 has it. */
HALF_FN uint16_t half_round(float f)
{
	uint32_t u, a, sign;
	float small;

	memcpy(&u, &f, sizeof(u));
	a = u & 0x7fffffffu;
	sign = u >> 16 & 0x8000u;
	if (a > 0x7f800000u)
		return 0x7fffu;
	if (a >= 0x477ff000u) /* 65520 */
		return (uint16_t)(sign | 0x7c00u);
	if (a >= 0x38800000u) /* 2^-14 */
		return (uint16_t)(sign | (a - 0x38000000u + 0xfffu +
					  (a >> 13 & 1)) >> 13);
	/* 2^-24 is the spacing of fp16 below 2^-14, and of f32 from 0.5 on */
	memcpy(&small, &a, sizeof(small));
	small += 0.5f;
	memcpy(&a, &small, sizeof(a));
	return (uint16_t)(sign | (a - 0x3f000000u));
}

HALF_FN float half_value(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000u) << 16, u = h & 0x7fffu;
	float f;

	if (u >= 0x7c00u) {
		u = 0x7f800000u | u << 13;
	} else if (u >= 0x400u) {
		u = (u << 13) + 0x38000000u;
	} else {
		u |= 0x3f000000u;
		memcpy(&f, &u, sizeof(f));
		f -= 0.5f;
		memcpy(&u, &f, sizeof(u));
	}
	u |= sign;
	memcpy(&f, &u, sizeof(f));
	return f;
}

#endif

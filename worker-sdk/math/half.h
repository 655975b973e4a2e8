/* half.h: converts one f16 (IEEE 754 binary16) or bf16 (the upper half of an
 * f32) to f32 and back, rounded to nearest even, in integers: no CPU flag or
 * mode that a program may have set (flush to zero) changes the result. A NaN
 * stays a NaN and becomes quiet, as in the CPU's own conversions. Pure. */
#ifndef SDK_HALF_H
#define SDK_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ddp__bits_f32(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t ddp__f32_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* Written without branches, so that loops over them can be vectorised. An f32's
 * exponent is biased by 127, an f16's by 15; their fractions have 23 and 10
 * bits. A subnormal f16 is 0.fraction * 2^-14: putting a 1 before the point and
 * subtracting it again normalises it. */
static inline float ddp__f16_to_f32(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16;
	uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
	uint32_t quiet = rest > 31u << 23 ? 1u << 22 : 0;
	uint32_t normal = rest + ((127u - 15) << 23);
	uint32_t special = (rest + ((255u - 31) << 23)) | quiet;
	uint32_t tiny = ddp__f32_bits(
		ddp__bits_f32(rest | (127u - 14) << 23) -
		ddp__bits_f32((127u - 14) << 23));

	rest = rest < 1u << 23 ? tiny : rest < 31u << 23 ? normal : special;
	return ddp__bits_f32(sign | rest);
}

/* Values below 2^-14 are subnormal in f16: adding 0.5 puts their last bit
 * (2^-24) where an f32 near 0.5 has its last, so the addition rounds. Otherwise
 * half of the last place is added, less one bit, and one if the last bit is
 * odd; a carry goes into the exponent, up to infinity. */
static inline uint16_t ddp__f32_to_f16(float f)
{
	uint32_t bits = ddp__f32_bits(f);
	uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
	uint32_t nan = 0x7e00 | (rest >> 13 & 0x3ff);
	uint32_t sum = ddp__f32_bits(ddp__bits_f32(rest) + 0.5f);
	uint32_t tiny = sum - (126u << 23);
	uint32_t odd = rest >> 13 & 1;
	uint32_t normal = (rest - ((127u - 15) << 23) + 0xfff + odd) >> 13;
	uint32_t out = rest < (127u - 14) << 23	    ? tiny
		       : rest < (127u + 16) << 23   ? normal
		       : rest > 255u << 23	    ? nan
						    : 0x7c00;

	return (uint16_t)(sign | out);
}

static inline float ddp__bf16_to_f32(uint16_t half)
{
	return ddp__bits_f32((uint32_t)half << 16);
}

static inline uint16_t ddp__f32_to_bf16(float f)
{
	uint32_t bits = ddp__f32_bits(f);
	uint32_t nan = bits >> 16 | 0x40;
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

	return (uint16_t)((bits & 0x7fffffff) > 255u << 23 ? nan : rounded);
}

#endif

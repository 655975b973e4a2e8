/* bf16.h: f32 as bf16, its upper half, rounded to nearest even, and back. A
 * value is off by at most 2^-8 of itself. Pure; loops that compilers
 * vectorise. */
#ifndef SDK_BF16_H
#define SDK_BF16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t ddp__bf16(uint32_t bits)
{
	uint32_t even = bits >> 16 & 1;

	/* a NaN whose payload is in the lower half must not become infinity */
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fffu + even) >> 16);
}

static inline void ddp__bf16_from(uint16_t *to, const float *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits;

		memcpy(&bits, from + i, sizeof(bits));
		to[i] = ddp__bf16(bits);
	}
}

static inline void ddp__bf16_to(float *to, const uint16_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)from[i] << 16;

		memcpy(to + i, &bits, sizeof(bits));
	}
}

#endif

/* cpu_vector.h: loads and stores of sixteen f32 or bf16 values as floats, for
 * MULTIVERSION loops: inlined, they use the level's instructions. */
#ifndef TRAINERS_CPU_VECTOR_H
#define TRAINERS_CPU_VECTOR_H

#include "trainers/ops/cpu.h"

#define INLINED static inline __attribute__((always_inline))

typedef uint32_t u16x32 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32), aligned(2),
				       may_alias));
typedef int32_t s16x32 __attribute__((vector_size(64)));

/* Address of value i. */
INLINED const void *value_at(const void *p, size_t i, int bf16)
{
	return (const char *)p + i * (bf16 ? 2 : 4);
}

INLINED void load16(v16 *out, const void *p, size_t i, int bf16)
{
	if (bf16) {
		u16x16 half = *(const u16x16 *)value_at(p, i, 1);
		u16x32 word = __builtin_convertvector(half, u16x32) << 16;

		*out = (v16)word;
	} else {
		*out = *(const v16 *)value_at(p, i, 0);
	}
}

/* The same for one value. */
INLINED float load1(const void *p, size_t i, int bf16)
{
	union {
		uint32_t u;
		float f;
	} v;

	if (!bf16)
		return ((const float *)p)[i];
	v.u = (uint32_t)((const uint16_t *)p)[i] << 16;
	return v.f;
}

/* Rounds to nearest even; a NaN stays NaN. */
INLINED void store16(const v16 *v, void *p, size_t i, int bf16)
{
	if (bf16) {
		u16x32 word = (u16x32)*v;
		u16x32 rounded = (word + 0x7fff + ((word >> 16) & 1)) >> 16;
		s16x32 number = *v == *v;

		rounded = (rounded & (u16x32)number) |
			  (((word >> 16) | 0x40) & ~(u16x32)number);
		*(u16x16 *)(void *)value_at(p, i, 1) =
			__builtin_convertvector(rounded, u16x16);
	} else {
		*(v16 *)(void *)value_at(p, i, 0) = *v;
	}
}

/* Zeroes the lanes of v that are not set in m. */
INLINED void keep16(v16 *v, const s16x32 *m)
{
	*v = (v16)((s16x32)*v & *m);
}

#endif

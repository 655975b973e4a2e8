/* cpu_half.c: rounds to fp16, as the GPU twin does, on processors that cannot
 * compute with it: with --precision fp16 the device keeps f32 tensors whose
 * values are fp16 numbers, because it rounds each result where a GPU stores
 * it. */
#include <omp.h>
#include <string.h>

#include "trainers/ops/cpu_vector.h"

/* Size of the parts that threads take. */
enum { PART = 1 << 16 };

/* Bits of f32: 2^-14, the least normal number of fp16; 65504, its greatest. */
enum {
	LEAST_NORMAL = 0x38800000,
	GREATEST = 0x477fe000,
	INFINITE = 0x7f800000
};

/* To nearest even; too large values become infinite, and NaN stays NaN. The
 * spacing of fp16's numbers below 2^-14 is 2^-24, as that of f32's from 0.5
 * on. */
INLINED void half_round16(v16 *v)
{
	u16x32 bits = (u16x32)*v, sign = bits & 0x80000000u, a = bits ^ sign;
	u16x32 r = (a + 0xfff + ((a >> 13) & 1)) & ~0x1fffu;
	v16 small = ((v16)a + 0.5f) - 0.5f;
	u16x32 is_small = (u16x32)(a < LEAST_NORMAL);
	u16x32 is_large = (u16x32)(r > GREATEST);
	u16x32 is_nan = (u16x32)(a > INFINITE);

	r = (r & ~is_large) | (INFINITE & is_large);
	r = (r & ~is_small) | ((u16x32)small & is_small);
	r = (r & ~is_nan) | ((a | 0x400000) & is_nan);
	*v = (v16)(r | sign);
}

MULTIVERSION
static void half_round_part(size_t count, float *x)
{
	size_t i = 0;
	v16 v;

	for (; i + LANES <= count; i += LANES) {
		load16(&v, x, i, 0);
		half_round16(&v);
		store16(&v, x, i, 0);
	}
	if (i == count)
		return;
	v = (v16){0};
	memcpy(&v, x + i, (count - i) * sizeof(*x));
	half_round16(&v);
	memcpy(x + i, &v, (count - i) * sizeof(*x));
}

void cpu_half_round(size_t count, float *x)
{
	size_t parts = (count + PART - 1) / PART;

#pragma omp parallel for schedule(static) if (parts > 1)
	for (size_t k = 0; k < parts; k++) {
		size_t at = k * PART;

		half_round_part(count - at < PART ? count - at : PART, x + at);
	}
}

void cpu_half_store(const struct cpu_device *d, const struct tensor *t)
{
	if (d->half && t && t->layout)
		cpu_half_round(t->bytes / sizeof(float), t->data);
}

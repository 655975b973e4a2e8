/* cpu_vector.c: plain arithmetic over arrays and tensors. */
#include "trainers/ops/cpu_vector.h"

#include <math.h>
#include <string.h>

/* Size of the parts that threads take: large enough to be worth it, and
 * independent of the number of threads. */
enum { PART = 1 << 16 };

MULTIVERSION
static void vector_add_part(size_t count, const float *restrict x,
			    float *restrict y)
{
	for (size_t i = 0; i < count; i++)
		y[i] += x[i];
}

MULTIVERSION
static void vector_add_halves(size_t count, const void *x, void *y)
{
	for (size_t i = 0; i + LANES <= count; i += LANES) {
		v16 a, b;

		load16(&a, x, i, 1);
		load16(&b, y, i, 1);
		a += b;
		store16(&a, y, i, 1);
	}
}

void cpu_vector_add(size_t count, const float *x, float *y)
{
	size_t parts = (count + PART - 1) / PART;

#pragma omp parallel for schedule(static) if (parts > 1)
	for (size_t k = 0; k < parts; k++) {
		size_t at = k * PART;
		size_t n = count - at < PART ? count - at : PART;

		vector_add_part(n, x + at, y + at);
	}
}

/* A tensor's memory is a multiple of 64 bytes, so the last lanes may go past
 * its last value. */
void cpu_tensor_add(struct tensor *a, const struct tensor *b)
{
	size_t count = a->bytes / (a->type == TENSOR_BF16 ? 2 : 4);
	size_t parts;

	if (a->type == TENSOR_F32) {
		cpu_vector_add(count, b->data, a->data);
		return;
	}
	count = (count + LANES - 1) / LANES * LANES;
	parts = (count + PART - 1) / PART;
#pragma omp parallel for schedule(static) if (parts > 1)
	for (size_t k = 0; k < parts; k++) {
		size_t at = k * PART;
		size_t n = count - at < PART ? count - at : PART;

		vector_add_halves(n, value_at(b->data, at, 1),
				  (void *)value_at(a->data, at, 1));
	}
}

MULTIVERSION
static void vector_scale_part(size_t count, float by, float *y)
{
	for (size_t i = 0; i < count; i++)
		y[i] *= by;
}

void cpu_vector_scale(size_t count, float by, float *y)
{
	size_t parts = (count + PART - 1) / PART;

#pragma omp parallel for schedule(static) if (parts > 1)
	for (size_t k = 0; k < parts; k++) {
		size_t at = k * PART;

		vector_scale_part(count - at < PART ? count - at : PART, by,
				  y + at);
	}
}

/* x * 0 is 0 for finite values, else NaN, and a NaN stays in the sum. */
int cpu_vector_finite(size_t count, const float *x)
{
	float sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += x[i] * 0.0f;
	return isfinite(sum);
}

/* ---- fp16 ----
 *
 * Rounds to fp16, as the GPU twin does, on processors that cannot compute with
 * it: with --precision fp16 the device keeps f32 tensors whose values are fp16
 * numbers, because it rounds each result where a GPU stores it. */

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

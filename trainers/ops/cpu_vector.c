/* cpu_vector.c: plain arithmetic over arrays and tensors. */
#include "trainers/ops/cpu_vector.h"

#include <math.h>
#include <omp.h>

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

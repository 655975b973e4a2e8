/* kernels.h: tensors for the tests of trainers/cuda's kernels on the host:
 * random values in a GPU's layout, and the same values after rounding. */
#ifndef TESTS_KERNELS_H
#define TESTS_KERNELS_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/trainers/cuda/on_host.h"
#include "trainers/cuda/kernels.h"
#include "trainers/cuda/layout.h"

struct box {
	struct tensor t;
	float *v; /* [n][c][h][w] */
};

static inline void *room(size_t bytes)
{
	size_t whole = (bytes + 15) & ~(size_t)15;
	void *p = aligned_alloc(16, whole ? whole : 16);

	ck_assert_ptr_nonnull(p);
	memset(p, 0xff, whole ? whole : 16); /* NaN, so that a read of it
					      * shows */
	return p;
}

static inline float drawn(void)
{
	return (float)rand() / (float)RAND_MAX * 2 - 1;
}

static inline float *floats(size_t n)
{
	float *p = room(n * sizeof(*p));

	for (size_t i = 0; i < n; i++)
		p[i] = drawn();
	return p;
}

static inline size_t box_count(const struct box *b)
{
	return (size_t)b->t.n * (size_t)b->t.c * (size_t)b->t.h *
	       (size_t)b->t.w;
}

/* Reads the tensor's values; padding has to be zero. */
static inline void box_read(struct box *b)
{
	int padded = layout_channels(b->t.c, b->t.type);
	size_t rows = layout_count(&b->t) / (size_t)padded;

	layout_unpack(&b->t, b->t.data, b->v);
	for (size_t i = 0; i < rows; i++)
		for (int c = b->t.c; c < padded; c++) {
			size_t at = i * (size_t)padded + (size_t)c;

			if (b->t.type != TENSOR_F32)
				ck_assert_uint_eq(
					((uint16_t *)b->t.data)[at] & 0x7fff,
					0);
			else
				ck_assert(((float *)b->t.data)[at] == 0);
		}
}

static inline struct box box_new(int n, int c, int h, int w,
				 enum tensor_type type)
{
	struct box b;

	layout_tensor(&b.t, n, c, h, w, type);
	b.t.data = room(b.t.bytes);
	b.v = floats(box_count(&b));
	layout_pack(&b.t, b.v, b.t.data);
	box_read(&b);
	return b;
}

static inline struct box box_empty(int n, int c, int h, int w,
				   enum tensor_type type)
{
	struct box b = box_new(n, c, h, w, type);

	memset(b.t.data, 0xff, b.t.bytes);
	return b;
}

static inline void box_free(struct box *b)
{
	free(b->t.data);
	free(b->v);
}

/* Value (n, c, place). */
static inline float at(const struct box *b, int n, int c, int place)
{
	return b->v[(n * b->t.c + c) * b->t.h * b->t.w + place];
}

static inline enum kernel_type kernel_type_of(enum tensor_type type)
{
	return (enum kernel_type)type;
}

/* times: what the type rounds may add up. */
static inline void near_by(double got, double want, enum kernel_type type,
			   double times, const char *what)
{
	static const double most[] = {[KERNEL_F32] = 3e-5,
				      [KERNEL_BF16] = 8e-3,
				      [KERNEL_F16] = 1e-3};

	/* an assertion that holds still writes to a pipe: too slow for each
	 * value */
	if (!(fabs(got - want) <= times * most[type] * (1 + fabs(want))))
		ck_abort_msg("%s: %g, not %g", what, got, want);
}

static inline void near(double got, double want, enum kernel_type type,
			const char *what)
{
	near_by(got, want, type, 1, what);
}

#endif

/* cpu_norm.h: the loops of batch normalisation over one tile: sixteen channels
 * of a number of places. Private to cpu_norm*.c. */
#ifndef TRAINERS_CPU_NORM_H
#define TRAINERS_CPU_NORM_H

#include "trainers/ops/cpu.h"

/* Sixteen channels of one sample, or fewer at the end. The values of a place
 * are adjacent; places are `stride` values apart. */
struct norm_tile {
	size_t at; /* index of the first value in the tensor */
	size_t places, stride;
	int channel, lanes; /* the first channel, and their number */
};

/* Sums over a tile for each of its channels. */
struct norm_sums {
	float a[LANES], b[LANES];
};

/* out->a = mean, out->b = sum of (x - mean)^2. */
void cpu_norm_moments(const struct norm_tile *t, int bf16, const void *x,
		      struct norm_sums *out);

/* y = x * mul + add1 + other (may be NULL), then ReLU if set; mul[channels],
 * add1[channels]. */
struct norm_apply {
	int bf16, relu;
	const float *mul, *add1;
	const void *x, *other;
	void *y;
};
void cpu_norm_apply(const struct norm_tile *t, const struct norm_apply *a);

/* dz = dy[0] + dy[1] where ReLU was open; out: sums of dz and of dz * (x -
 * mean). ReLU was open where y > 0, or, if y is NULL, where x * mul + add1 >
 * 0. */
struct norm_slope {
	int bf16, relu;
	const float *mul, *add1, *mean;
	const void *x, *y, *dy[2];
	void *dz; /* NULL: not needed */
};
void cpu_norm_slope(const struct norm_tile *t, const struct norm_slope *s,
		    struct norm_sums *out);

/* dx = dz * mul + x * by_x + add1. dz is dy, with `masked` only where x *
 * relu_mul + relu_add > 0. dx may share dy's memory. */
struct norm_back {
	int bf16, masked;
	const float *mul, *by_x, *add1, *relu_mul, *relu_add;
	const void *x, *dy;
	void *dx;
};
void cpu_norm_back(const struct norm_tile *t, const struct norm_back *b);

#endif

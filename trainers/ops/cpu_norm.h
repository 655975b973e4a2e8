/* cpu_norm.h: the loops of batch normalisation over one tile: sixteen channels
 * at a number of places. */
#ifndef TRAINERS_CPU_NORM_H
#define TRAINERS_CPU_NORM_H

#include "trainers/ops/cpu.h"

/* Sixteen channels of one sample, or fewer where channels end. Values of a
 * place lie side by side, places are `stride` values apart. */
struct norm_tile {
	size_t at; /* of the first value in the tensor */
	size_t places, stride;
	int channel, lanes; /* the first, and how many */
};

/* Sums over a tile of each channel, lanes of them. */
struct norm_sums {
	float a[LANES], b[LANES];
};

/* mean into a and the sum of squared distances from it into b. */
void cpu_norm_moments(const struct norm_tile *t, int bf16, const void *x,
		      struct norm_sums *out);

/* y = x * mul + add1 + other (may be NULL), ReLU where set; mul and add1 are of
 * all channels. */
struct norm_apply {
	int bf16, relu;
	const float *mul, *add1;
	const void *x, *other;
	void *y;
};
void cpu_norm_apply(const struct norm_tile *t, const struct norm_apply *a);

/* dz = dy[0] + dy[1], where ReLU let it through; the sums of dz and of
 * dz * (x - mean). ReLU let through what y has above zero; y NULL: what
 * x * mul + add1 has. */
struct norm_slope {
	int bf16, relu;
	const float *mul, *add1, *mean;
	const void *x, *y, *dy[2];
	void *dz; /* NULL: not wanted */
};
void cpu_norm_slope(const struct norm_tile *t, const struct norm_slope *s,
		    struct norm_sums *out);

/* dx = dz * mul + x * by_x + add1. dz is dy where masked is 0, else dy where
 * x * relu_mul + relu_add is above 0. dx may be dy. */
struct norm_back {
	int bf16, masked;
	const float *mul, *by_x, *add1, *relu_mul, *relu_add;
	const void *x, *dy;
	void *dx;
};
void cpu_norm_back(const struct norm_tile *t, const struct norm_back *b);

#endif

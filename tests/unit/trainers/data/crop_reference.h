/* crop_reference.h: a pixel of a resized crop by Pillow's formulas
 * (libImaging/Resample.c, bilinear) in double precision, rounded once. */
#ifndef TESTS_CROP_REFERENCE_H
#define TESTS_CROP_REFERENCE_H

#include <math.h>
#include <stdint.h>

#include "trainers/data/crop.h"

/* The weight of pixel i of `from` for pixel k of `to`, not normalised. */
static inline double reference_weight(int i, int k, int from, int to)
{
	double scale = (double)from / to, support = scale > 1 ? scale : 1;
	double x = fabs((i + 0.5 - (k + 0.5) * scale) / support);

	return x < 1 ? 1 - x : 0;
}

/* Pixel (y, x) of a plane's part, scaled to height x width. */
static inline uint8_t reference_pixel(const uint8_t *plane, int stride,
				      const struct crop *c, int height,
				      int width, int y, int x)
{
	double sum = 0, weights = 0;

	if (c->flip)
		x = width - 1 - x;
	for (int i = 0; i < c->height; i++)
		for (int j = 0; j < c->width; j++) {
			double w = reference_weight(i, y, c->height, height) *
				   reference_weight(j, x, c->width, width);

			weights += w;
			sum += w * plane[(c->y + i) * stride + c->x + j];
		}
	/* half is rounded up, whatever the error of the sums */
	return (uint8_t)floor(sum / weights + 0.5 + 1e-9);
}

#endif

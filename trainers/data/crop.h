/* crop.h: the random part of a training image that is resized to the network's
 * input, as torchvision's RandomResizedCrop and RandomHorizontalFlip do it.
 * Integers alone, so that every device computes the same bits. Pure; CUDA's
 * kernels use it as well. */
#ifndef TRAINERS_CROP_H
#define TRAINERS_CROP_H

#include "trainers/data/augment.h"

/* Rows y..y + height of an image, columns x..x + width; then mirrored. */
struct crop {
	int y, x, height, width, flip;
};

enum { CROP_TRIES = 10 };

/* A fraction in 1/2^30. */
#define CROP_ONE ((int64_t)1 << 30)
#define CROP_AREA_LEAST ((uint64_t)85899346) /* 0.08 */
#define CROP_LOG_RATIO ((int64_t)308896273)  /* ln(4/3) */

/* exp(x), |x| <= ln(4/3), to 1e-8, by its series. */
AUGMENT_FN int64_t crop_exp(int64_t x)
{
	int64_t sum = CROP_ONE, term = CROP_ONE;

	for (int k = 1; k <= 9; k++) {
		term = term * x / (CROP_ONE * k);
		sum += term;
	}
	return sum;
}

/* sqrt(area * ratio), rounded. area in 1/2^16, at most 2^40. */
AUGMENT_FN int crop_side(uint64_t area, int64_t ratio)
{
	/* (2 * side)^2; side >= n - 1/2 if and only if it is >= (2n - 1)^2 */
	uint64_t square = area * (uint64_t)(ratio >> 10) >> 34, root = 0;

	for (uint64_t bit = (uint64_t)1 << 15; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= square)
			root |= bit;
	return (int)((root + 1) / 2);
}

/* Equally likely 0..count - 1, from 32 bits. */
AUGMENT_FN int crop_place(uint64_t bits, int count)
{
	return (int)((bits & 0xffffffffu) * (uint64_t)count >> 32);
}

/* After ten tries without success: the largest part in the middle whose ratio
 * is allowed. */
AUGMENT_FN struct crop crop_fallback(int height, int width)
{
	struct crop c = {0, 0, height, width, 0};

	if (4 * width < 3 * height)
		c.height = (8 * width + 3) / 6;
	else if (3 * width > 4 * height)
		c.width = (8 * height + 3) / 6;
	c.y = (height - c.height) / 2;
	c.x = (width - c.width) / 2;
	return c;
}

/* The part of an image of at most 4096 x 4096 pixels: 8 to 100 % of its area,
 * width / height from 3/4 to 4/3, uniform in its logarithm. The flip is
 * augment_draw's. */
AUGMENT_FN struct crop crop_draw(uint64_t seed, uint64_t epoch, uint32_t sample,
				 int height, int width)
{
	uint64_t z = augment_mix(augment_mix(augment_mix(seed) ^ epoch) ^
				 sample);
	struct crop c = crop_fallback(height, width);

	for (uint64_t i = 1; i <= CROP_TRIES; i++) {
		uint64_t shape = augment_mix(z + 2 * i);
		uint64_t place = augment_mix(z + 2 * i + 1);
		uint64_t part = CROP_AREA_LEAST +
			((shape >> 32) *
			 ((uint64_t)CROP_ONE - CROP_AREA_LEAST) >> 32);
		uint64_t area = (uint64_t)height * (uint64_t)width * part >> 14;
		int64_t x = (int64_t)((shape & 0xffffffffu) *
				      (uint64_t)(2 * CROP_LOG_RATIO) >> 32) -
			    CROP_LOG_RATIO;
		int w = crop_side(area, crop_exp(x));
		int h = crop_side(area, crop_exp(-x));

		if (w < 1 || w > width || h < 1 || h > height)
			continue;
		c.y = crop_place(place, height - h + 1);
		c.x = crop_place(place >> 32, width - w + 1);
		c.height = h;
		c.width = w;
		break;
	}
	c.flip = (int)(z >> 63);
	return c;
}

/* For evaluation: size x size pixels in the middle, or what the image has of
 * them. */
AUGMENT_FN struct crop crop_centre(int height, int width, int size)
{
	struct crop c = {0, 0, height < size ? height : size,
			 width < size ? width : size, 0};

	c.y = (height - c.height) / 2;
	c.x = (width - c.width) / 2;
	return c;
}

/* ---- Bilinear scaling with antialiasing, of `from` pixels to `to` ----
 *
 * As Pillow's and torchvision's: each pixel of the result is a mean of those
 * around its place, with weights that fall linearly to 0, at the distance of
 * one pixel of the larger of both grids. Distances are in 1 / (2 * to) pixels,
 * so weights are integers and the mean is exact until it is rounded to a byte,
 * once. to is at least 8, or from is at most to: then a weighted sum of bytes
 * in one direction fits in 32 bits. */

AUGMENT_FN int crop_reach(int from, int to)
{
	return 2 * (from > to ? from : to);
}

/* The first pixel with a weight for pixel k of the result. */
AUGMENT_FN int crop_first(int k, int from, int to)
{
	int before = (2 * k + 1) * from - crop_reach(from, to) - to;

	return before < 0 ? 0 : before / (2 * to) + 1;
}

/* The pixel after the last one with a weight. */
AUGMENT_FN int crop_end(int k, int from, int to)
{
	int after = (2 * k + 1) * from + crop_reach(from, to) - to;
	int end = (after + 2 * to - 1) / (2 * to);

	return end < from ? end : from;
}

/* The weight of pixel i, from crop_first on and before crop_end. */
AUGMENT_FN uint32_t crop_weight(int i, int k, int from, int to)
{
	int d = (2 * i + 1) * to - (2 * k + 1) * from;

	return (uint32_t)(crop_reach(from, to) - (d < 0 ? -d : d));
}

/* sum / weight, rounded; a half is rounded up. The estimate in floats is at
 * most one away, in either direction. */
AUGMENT_FN uint32_t crop_mean(uint64_t sum, uint64_t weight)
{
	uint32_t mean = (uint32_t)((float)sum / (float)weight + 0.5f);
	uint64_t twice = 2 * sum + weight;

	if (mean * 2 * weight > twice)
		mean--;
	else if ((mean + 1) * 2 * weight <= twice)
		mean++;
	return mean;
}

#endif

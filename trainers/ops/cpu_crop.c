/* cpu_crop.c: crops an image and scales what is left, as crop.h defines it:
 * first rows, whose pixels are neighbours in memory, then the pixels of a row.
 * Sums are exact, so the order does not matter. */
#include <stdlib.h>
#include <string.h>

#include "trainers/data/crop.h"
#include "trainers/ops/cpu.h"

struct cpu_crop {
	int height, width; /* the result's */
	uint32_t *rows;    /* [width of an image]: a weighted sum of rows */
	/* [width]: for a pixel of the result, its first source pixel, the end
	 * of its weights, and their sum */
	int *first;
	size_t *end;
	uint32_t *sum;
	uint32_t *weight;
};

struct cpu_crop *cpu_crop_new(const struct image_shape *s, int height,
			      int width)
{
	size_t most = (size_t)(s->width > width ? s->width : width);
	struct cpu_crop *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->height = height;
	c->width = width;
	c->rows = calloc((size_t)s->width, sizeof(*c->rows));
	c->first = calloc((size_t)width, sizeof(*c->first));
	c->end = calloc((size_t)width, sizeof(*c->end));
	c->sum = calloc((size_t)width, sizeof(*c->sum));
	/* each pixel of the result has at most 2 * most / width + 1 weights */
	c->weight = calloc(2 * most + (size_t)width, sizeof(*c->weight));
	if (c->rows && c->first && c->end && c->sum && c->weight)
		return c;
	cpu_crop_free(c);
	return NULL;
}

void cpu_crop_free(struct cpu_crop *c)
{
	if (!c)
		return;
	free(c->rows);
	free(c->first);
	free(c->end);
	free(c->sum);
	free(c->weight);
	free(c);
}

/* Sets the weights within a row, for a part of this width. */
static void crop_weigh(struct cpu_crop *c, int from)
{
	size_t n = 0;

	for (int k = 0; k < c->width; k++) {
		int end = crop_end(k, from, c->width);

		c->first[k] = crop_first(k, from, c->width);
		c->sum[k] = 0;
		for (int i = c->first[k]; i < end; i++) {
			c->weight[n] = crop_weight(i, k, from, c->width);
			c->sum[k] += c->weight[n++];
		}
		c->end[k] = n;
	}
}

MULTIVERSION
static void crop_add_row(size_t count, uint32_t weight,
			 const uint8_t *restrict row, uint32_t *restrict sum)
{
	for (size_t i = 0; i < count; i++)
		sum[i] += weight * row[i];
}

/* The weights of the rows in c->rows add up to `rows`. */
static void crop_row(const struct cpu_crop *c, uint32_t rows, int flip,
		     uint8_t *out)
{
	size_t n = 0;

	for (int k = 0; k < c->width; k++) {
		const uint32_t *from = c->rows + c->first[k];
		uint64_t sum = 0, weight = (uint64_t)rows * c->sum[k];

		for (; n < c->end[k]; n++)
			sum += (uint64_t)c->weight[n] * *from++;
		out[flip ? c->width - 1 - k : k] =
			(uint8_t)crop_mean(sum, weight);
	}
}

void cpu_crop_run(struct cpu_crop *c, const struct image_shape *s,
		  const struct crop *part, const uint8_t *from, uint8_t *to)
{
	size_t plane = (size_t)s->height * (size_t)s->width;

	crop_weigh(c, part->width);
	from += (size_t)part->y * (size_t)s->width + (size_t)part->x;
	for (int row = 0; row < s->channels * c->height; row++) {
		const uint8_t *image = from + (size_t)(row / c->height) * plane;
		int y = row % c->height;
		int end = crop_end(y, part->height, c->height);
		uint32_t rows = 0;

		memset(c->rows, 0, (size_t)part->width * sizeof(*c->rows));
		for (int i = crop_first(y, part->height, c->height); i < end;
		     i++) {
			uint32_t w = crop_weight(i, y, part->height, c->height);

			crop_add_row((size_t)part->width, w,
				     image + (size_t)i * (size_t)s->width,
				     c->rows);
			rows += w;
		}
		crop_row(c, rows, part->flip, to);
		to += c->width;
	}
}

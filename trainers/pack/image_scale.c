/* image_scale.c: scales images. Rows are combined first, as their pixels are
 * neighbours in memory, then pixels within a row. All arithmetic is on integers
 * of 16 bits, which is fast with any vectors, and gives the same bits with
 * all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/multiversion.h"
#include "trainers/pack/image.h"

enum { ONE = 1 << 16, LANES = 4 };

/* For each pixel of the result, the first source pixel, and the weights of the
 * `taps` pixels from there on, which sum to ONE; unused weights are 0. */
struct filter {
	int taps;
	int *first;
	uint16_t *weight; /* [count][taps] */
};

static void filter_release(struct filter *f)
{
	free(f->first);
	free(f->weight);
}

/* The largest weight takes what rounding has lost. A single one is 1 less than
 * ONE, which changes no pixel. */
static void filter_round(uint16_t *w, const double *exact, int taps, double sum)
{
	int left = ONE, most = 0;

	for (int t = 0; t < taps; t++) {
		int rounded = (int)(exact[t] / sum * ONE);

		left -= rounded;
		w[t] = rounded < ONE ? (uint16_t)rounded : ONE - 1;
		if (exact[t] > exact[most])
			most = t;
	}
	if (w[most] + left < ONE)
		w[most] = (uint16_t)(w[most] + left);
}

/* The pixels from..from + count of `all`, scaled to `size` pixels. */
static int filter_init(struct filter *f, int size, int64_t all, int64_t from,
		       int count)
{
	double scale = (double)size / (double)all;
	double reach = scale > 1 ? scale : 1; /* never less than a neighbour */
	double *exact;

	f->taps = (int)ceil(reach) * 2 + 1;
	if (f->taps > size)
		f->taps = size;
	f->first = malloc((size_t)count * sizeof(*f->first));
	f->weight = malloc((size_t)count * (size_t)f->taps *
			   sizeof(*f->weight));
	exact = malloc((size_t)f->taps * sizeof(*exact));
	for (int k = 0; k < count && f->first && f->weight && exact; k++) {
		double centre = ((double)(from + k) + 0.5) * scale, sum = 0;
		int first = (int)floor(centre - reach + 0.5);

		if (first > size - f->taps)
			first = size - f->taps;
		if (first < 0)
			first = 0;
		f->first[k] = first;
		for (int t = 0; t < f->taps; t++) {
			double x = fabs(first + t + 0.5 - centre) / reach;

			exact[t] = x < 1 ? 1 - x : 0;
			sum += exact[t];
		}
		filter_round(f->weight + (size_t)k * (size_t)f->taps, exact,
			     f->taps, sum);
	}
	free(exact);
	return f->first && f->weight && exact ? 0 : -1;
}

/* The high half of a product: what is left of a value in 1/256 after a weight
 * in 1/ONE. */
static inline uint16_t scale_part(uint16_t value, uint16_t weight)
{
	return (uint16_t)((uint32_t)value * weight >> 16);
}

/* sum[n], in 1/256: += weight times the bytes of a row. */
MULTIVERSION static void scale_add_row(uint16_t *restrict sum,
				       const uint8_t *restrict row,
				       uint16_t weight, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum[i] = (uint16_t)(sum[i] + scale_part((uint16_t)(row[i] << 8),
							weight));
}

/* Three values a pixel become four. The last is not used. `from` has one more
 * value. */
static void scale_widen(uint16_t *to, const uint16_t *from, int pixels)
{
	for (int x = 0; x < pixels; x++)
		memcpy(to + LANES * x, from + 3 * x, LANES * sizeof(*to));
}

/* sum[2 * LANES] += the parts of two pixels. */
static inline void scale_add_pair(uint16_t *sum, const uint16_t *value,
				  const uint16_t *weight)
{
#ifdef __SSE2__
	__m128i v = _mm_loadu_si128((const __m128i *)value);
	__m128i w = _mm_loadu_si128((const __m128i *)weight);
	__m128i s = _mm_loadu_si128((const __m128i *)sum);

	_mm_storeu_si128((__m128i *)sum,
			 _mm_add_epi16(s, _mm_mulhi_epu16(v, w)));
#else
	for (int k = 0; k < 2 * LANES; k++)
		sum[k] = (uint16_t)(sum[k] + scale_part(value[k], weight[k]));
#endif
}

static void scale_row(const uint16_t *row, const int *first,
				   const uint16_t *weight, int pairs, int side,
				   uint8_t *out, size_t plane)
{
	for (int x = 0; x < side; x++) {
		const uint16_t *value = row + (size_t)first[x] * LANES;
		uint16_t sum[2 * LANES] = {0};

		for (int p = 0; p < pairs; p++, weight += 2 * LANES)
			scale_add_pair(sum, value + p * 2 * LANES, weight);
		for (int c = 0; c < 3; c++)
			out[(size_t)c * plane + (size_t)x] =
				(uint8_t)((sum[c] + sum[LANES + c] + 128) >> 8);
	}
}

/* [side][pairs][2][LANES]: each weight of h in every lane. NULL: no memory. */
static uint16_t *scale_spread(const struct filter *h, int pairs, int side)
{
	size_t size = (size_t)pairs * 2 * LANES;
	uint16_t *w = calloc((size_t)side * size, sizeof(*w));

	for (int x = 0; w && x < side; x++)
		for (int k = 0; k < h->taps * LANES; k++)
			w[(size_t)x * size + (size_t)k] =
				h->weight[x * h->taps + k / LANES];
	return w;
}

static int image_scale(const struct image *i, const struct filter *h,
		       const struct filter *v, int side, uint8_t *out)
{
	int from = h->first[0], pairs = (h->taps + 1) / 2;
	int width = h->first[side - 1] + h->taps - from;
	size_t values = 3 * (size_t)width, plane = (size_t)side * (size_t)side;
	uint16_t *weight = scale_spread(h, pairs, side);
	uint16_t *sum = calloc(values + 1, sizeof(*sum));
	uint16_t *row = calloc(((size_t)(from + width) + 1) * LANES,
			       sizeof(*row));
	int r = weight && sum && row ? 0 : -1;

	for (int y = 0; y < side && r == 0; y++) {
		const uint16_t *w = v->weight + (size_t)y * (size_t)v->taps;

		memset(sum, 0, values * sizeof(*sum));
		for (int t = 0; t < v->taps; t++)
			if (w[t])
				scale_add_row(sum,
					      i->pixels +
					      ((size_t)(v->first[y] + t) *
					       (size_t)i->width +
					       (size_t)from) * 3,
					      w[t], values);
		scale_widen(row + (size_t)from * LANES, sum, width);
		scale_row(row, h->first, weight, pairs, side,
			  out + (size_t)y * (size_t)side, plane);
	}
	free(weight);
	free(sum);
	free(row);
	return r;
}

int image_fit(const struct image *i, int side, uint8_t *out, struct err *e)
{
	int shorter = i->width < i->height ? i->width : i->height;
	int64_t all_x = (int64_t)i->width * side / shorter;
	int64_t all_y = (int64_t)i->height * side / shorter;
	struct filter h = {0}, v = {0};
	int r = filter_init(&h, i->width, all_x, (all_x - side) / 2, side);

	if (r == 0)
		r = filter_init(&v, i->height, all_y, (all_y - side) / 2, side);
	if (r == 0)
		r = image_scale(i, &h, &v, side, out);
	filter_release(&h);
	filter_release(&v);
	return r < 0 ? err_no_memory(e, "an image of %d x %d", i->width,
				     i->height)
		     : 0;
}

/* image.c: which format a file has, and scaling. */
#include "trainers/pack/image.h"

#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

int image_alloc(struct image *i, uint64_t width, uint64_t height,
		struct err *e)
{
	if (width < 1 || height < 1 || width > IMAGE_PIXELS_MAX ||
	    height > IMAGE_PIXELS_MAX || width * height > IMAGE_PIXELS_MAX)
		return err_set(e, ERR_DATA, "it has %llu x %llu pixels, and "
			       "images have 1 to %d",
			       (unsigned long long)width,
			       (unsigned long long)height, IMAGE_PIXELS_MAX);
	i->width = (int)width;
	i->height = (int)height;
	i->pixels = malloc((size_t)(width * height * 3));
	if (!i->pixels)
		return err_no_memory(e, "an image of %d x %d", i->width,
				     i->height);
	return 0;
}

int image_decode(struct image *i, const void *bytes, size_t n, int least,
		 struct err *e)
{
	memset(i, 0, sizeof(*i));
	if (n == 0)
		return err_set(e, ERR_DATA, "the file is empty");
	if (n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
		return image_decode_jpeg(i, bytes, n, least, e);
	if (n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
		return image_decode_png(i, bytes, n, e);
	return err_set(e, ERR_DATA, "it is neither JPEG nor PNG");
}

void image_release(struct image *i)
{
	free(i->pixels);
	memset(i, 0, sizeof(*i));
}

/* ---- Scaling ---- */

/* For each pixel of the result, the first source pixel, and the weights of the
 * `taps` pixels from there on; unused weights are 0. */
struct filter {
	int taps;
	int *first;
	float *weight; /* [count][taps] */
};

static void filter_release(struct filter *f)
{
	free(f->first);
	free(f->weight);
}

/* The pixels from..from + count of `all`, scaled to `size` pixels. */
static int filter_init(struct filter *f, int size, int64_t all, int64_t from,
		       int count)
{
	double scale = (double)size / (double)all;
	double reach = scale > 1 ? scale : 1; /* never less than a neighbour */

	f->taps = (int)ceil(reach) * 2 + 1;
	if (f->taps > size)
		f->taps = size;
	f->first = malloc((size_t)count * sizeof(*f->first));
	f->weight = calloc((size_t)count * (size_t)f->taps,
			   sizeof(*f->weight));
	if (!f->first || !f->weight)
		return -1;
	for (int k = 0; k < count; k++) {
		double centre = ((double)(from + k) + 0.5) * scale, sum = 0;
		int first = (int)floor(centre - reach + 0.5);
		float *w = f->weight + (size_t)k * (size_t)f->taps;

		if (first > size - f->taps)
			first = size - f->taps;
		if (first < 0)
			first = 0;
		f->first[k] = first;
		for (int t = 0; t < f->taps; t++) {
			double x = fabs(first + t + 0.5 - centre) / reach;

			w[t] = x < 1 ? (float)(1 - x) : 0;
			sum += (double)w[t];
		}
		for (int t = 0; t < f->taps; t++)
			w[t] = (float)((double)w[t] / sum);
	}
	return 0;
}

/* Row y of i, scaled: out[3][side]. */
static void image_scale_row(const struct image *i, const struct filter *f,
			    int y, int side, float *out)
{
	const uint8_t *row = i->pixels + (size_t)y * (size_t)i->width * 3;

	for (int x = 0; x < side; x++) {
		const uint8_t *p = row + (size_t)f->first[x] * 3;
		const float *w = f->weight + (size_t)x * (size_t)f->taps;
		float sum[3] = {0, 0, 0};

		for (int t = 0; t < f->taps; t++)
			for (int c = 0; c < 3; c++)
				sum[c] += w[t] * (float)p[3 * t + c];
		for (int c = 0; c < 3; c++)
			out[c * side + x] = sum[c];
	}
}

/* rows: [][3][side], the first being the first that v needs. */
static void image_scale_columns(const float *rows, const struct filter *v,
				int side, uint8_t *out)
{
	size_t width = 3 * (size_t)side, plane = (size_t)side * (size_t)side;

	for (int y = 0; y < side; y++) {
		const float *w = v->weight + (size_t)y * (size_t)v->taps;
		const float *row = rows + (size_t)(v->first[y] - v->first[0]) *
						  width;

		for (size_t x = 0; x < width; x++) {
			size_t c = x / (size_t)side, to = x % (size_t)side;
			float sum = 0.5f;

			for (int t = 0; t < v->taps; t++)
				sum += w[t] * row[(size_t)t * width + x];
			out[c * plane + (size_t)y * (size_t)side + to] =
				sum > 255 ? 255 : (uint8_t)sum;
		}
	}
}

static int image_scale(const struct image *i, const struct filter *h,
		       const struct filter *v, int side, uint8_t *out)
{
	size_t width = 3 * (size_t)side;
	int first = v->first[0], count = v->first[side - 1] + v->taps - first;
	float *rows = malloc((size_t)count * width * sizeof(*rows));

	if (!rows)
		return -1;
	for (int y = 0; y < count; y++)
		image_scale_row(i, h, first + y, side,
				rows + (size_t)y * width);
	image_scale_columns(rows, v, side, out);
	free(rows);
	return 0;
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

/* ---- PNG ---- */

int image_decode_png(struct image *i, const void *bytes, size_t n,
		     struct err *e)
{
	const png_color black = {0, 0, 0};
	png_image p = {.version = PNG_IMAGE_VERSION};
	int r = 0;

	if (!png_image_begin_read_from_memory(&p, bytes, n))
		r = err_set(e, ERR_DATA, "it is a broken PNG: %s", p.message);
	if (r == 0)
		r = image_alloc(i, p.width, p.height, e);
	p.format = PNG_FORMAT_RGB;
	if (r == 0 && !png_image_finish_read(&p, &black, i->pixels, 0, NULL))
		r = err_set(e, ERR_DATA, "it is a broken PNG: %s", p.message);
	png_image_free(&p);
	return r;
}

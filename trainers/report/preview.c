/* preview.c: lays out the sheet and writes it with libpng. */
#include "trainers/report/preview.h"

#include <errno.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

struct sheet {
	int width, height, channels; /* 1: grey, 3: RGB */
	uint8_t *pixels;             /* [height][width][channels] */
};

/* The byte of a value: the inverse of dataset.h's scaling. */
static uint8_t preview_byte(const struct image_shape *s, int channel,
			    float value)
{
	float v = (value * s->std[channel] + s->mean[channel]) * 255 + 0.5f;

	return !(v > 0) ? 0 : v > 255 ? 255 : (uint8_t)v;
}

/* Draws pair i: `before` in the upper half, `after` in the lower. */
static void preview_draw(struct sheet *sheet, const struct image_shape *s,
			 int i, const uint8_t *before, const float *after)
{
	int cell_w = s->width * PREVIEW_SCALE + PREVIEW_GAP;
	int half = s->height * PREVIEW_SCALE + PREVIEW_GAP;
	int left = PREVIEW_GAP + i % PREVIEW_ROW * cell_w;
	int top = PREVIEW_GAP + i / PREVIEW_ROW * (2 * half + PREVIEW_GAP);

	for (int y = 0; y < 2 * s->height * PREVIEW_SCALE; y++) {
		int lower = y >= s->height * PREVIEW_SCALE;
		int from_y = y / PREVIEW_SCALE % s->height;
		int to_y = top + y + (lower ? PREVIEW_GAP : 0);

		for (int x = 0; x < s->width * PREVIEW_SCALE; x++)
			for (int c = 0; c < sheet->channels; c++) {
				int from = (c * s->height + from_y) * s->width +
					   x / PREVIEW_SCALE;

				sheet->pixels[(to_y * sheet->width + left + x) *
					      sheet->channels + c] =
					lower ? preview_byte(s, c, after[from])
					      : before[from];
			}
	}
}

/* Keeps libpng's error text instead of printing it. */
static void preview_on_png_error(png_structp png, png_const_charp text)
{
	snprintf(png_get_error_ptr(png), 128, "%s", text);
	png_longjmp(png, 1);
}

static void preview_on_png_warning(png_structp png, png_const_charp text)
{
}

static int preview_put_png(FILE *f, const struct sheet *s, char *why)
{
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, why,
						  preview_on_png_error,
						  preview_on_png_warning);
	png_infop info = png ? png_create_info_struct(png) : NULL;
	size_t row = (size_t)s->width * (size_t)s->channels;
	int r = info ? 0 : -ENOMEM;

	if (info && setjmp(png_jmpbuf(png))) {
		png_destroy_write_struct(&png, &info);
		return errno ? -errno : -EIO;
	}
	errno = 0;
	if (info) {
		png_init_io(png, f);
		png_set_IHDR(png, info, (png_uint_32)s->width,
			     (png_uint_32)s->height, 8,
			     s->channels == 3 ? PNG_COLOR_TYPE_RGB
					      : PNG_COLOR_TYPE_GRAY,
			     PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
			     PNG_FILTER_TYPE_DEFAULT);
		png_write_info(png, info);
		for (int y = 0; y < s->height; y++)
			png_write_row(png, s->pixels + (size_t)y * row);
		png_write_end(png, NULL);
	}
	png_destroy_write_struct(&png, &info);
	return r;
}

static int preview_write_sheet(const char *path, const struct sheet *s,
			       struct err *e)
{
	char *part = NULL, why[128] = "";
	FILE *f = NULL;
	int r;

	if (asprintf(&part, "%s.part.%ld", path, (long)getpid()) < 0)
		return err_no_memory(e, "--save-images %s", path);
	f = fopen(part, "we");
	r = f ? preview_put_png(f, s, why) : -errno;
	r = file_close_stream(f, r);
	if (r == 0 && rename(part, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(part);
	free(part);
	if (r < 0)
		return err_set(e, r, "--save-images: cannot write %s: %s%s%s",
			       path, strerror(-r), why[0] ? ": " : "", why);
	return 0;
}

int preview_write(const char *path, const struct image_shape *shape, int n,
		  const uint8_t *before, const float *after, struct err *e)
{
	size_t size = (size_t)shape->channels * (size_t)shape->height *
		      (size_t)shape->width;
	int columns = n < PREVIEW_ROW ? n : PREVIEW_ROW;
	int rows = (n + PREVIEW_ROW - 1) / PREVIEW_ROW, r;
	int half = shape->height * PREVIEW_SCALE + PREVIEW_GAP;
	struct sheet s = {
		.width = PREVIEW_GAP + columns *
			 (shape->width * PREVIEW_SCALE + PREVIEW_GAP),
		.height = PREVIEW_GAP + rows * (2 * half + PREVIEW_GAP),
		.channels = shape->channels == 3 ? 3 : 1,
	};
	size_t bytes = (size_t)s.width * (size_t)s.height * (size_t)s.channels;

	s.pixels = malloc(bytes);
	if (!s.pixels)
		return err_no_memory(e, "--save-images %s: %zu bytes", path,
				     bytes);
	memset(s.pixels, 128, bytes);
	for (int i = 0; i < n; i++)
		preview_draw(&s, shape, i, before + (size_t)i * size,
			     after + (size_t)i * size);
	r = preview_write_sheet(path, &s, e);
	free(s.pixels);
	return r;
}

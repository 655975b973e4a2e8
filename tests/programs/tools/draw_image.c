/* draw_image.c: writes an image.
 *
 *   draw_image FILE WIDTH HEIGHT RED GREEN BLUE [cmyk]   of one colour; PNG if
 *                     the name ends in .png, else JPEG
 *   draw_image FILE WIDTH HEIGHT noise SEED   a JPEG with as much detail as a
 *                     photograph has: 500 x 375 take about 100 kB */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

static int draw_png(FILE *f, int width, int height, const unsigned char *colour)
{
	png_image p = {.version = PNG_IMAGE_VERSION,
		       .width = (png_uint_32)width,
		       .height = (png_uint_32)height,
		       .format = PNG_FORMAT_RGB};
	unsigned char *pixels = malloc((size_t)width * (size_t)height * 3);
	int ok;

	if (!pixels)
		return 0;
	for (int i = 0; i < width * height * 3; i++)
		pixels[i] = colour[i % 3];
	ok = png_image_write_to_stdio(&p, f, 0, pixels, 0, NULL);
	free(pixels);
	return ok;
}

/* ---- noise ---- */

/* -1..1 for a point of the lattice; the multipliers are splitmix64's. */
static float draw_lattice(uint64_t seed, int x, int y)
{
	uint64_t z = seed + (uint64_t)x * 0x9e3779b97f4a7c15u +
		     (uint64_t)y * 0xd1b54a32d192ed03u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (float)((z ^ (z >> 31)) >> 40) / (1 << 23) - 1;
}

/* Interpolated between points that are `cell` pixels apart. */
static float draw_smooth(uint64_t seed, int x, int y, int cell)
{
	int i = x / cell, j = y / cell;
	float u = (float)(x % cell) / (float)cell;
	float v = (float)(y % cell) / (float)cell;
	float above = draw_lattice(seed, i, j) * (1 - u) +
		      draw_lattice(seed, i + 1, j) * u;
	float below = draw_lattice(seed, i, j + 1) * (1 - u) +
		      draw_lattice(seed, i + 1, j + 1) * u;

	return above * (1 - v) + below * v;
}

/* Light has all sizes of detail, colour only large ones. */
static JSAMPLE draw_noise(uint64_t seed, int x, int y, int channel)
{
	float v = 128, size = 60;

	for (int cell = 128; cell >= 1; cell /= 2, size *= 0.87f)
		v += size * draw_smooth(seed + (uint64_t)cell, x, y, cell);
	v += 50 * draw_smooth(seed + 1000 + (uint64_t)channel, x, y, 24);
	return (JSAMPLE)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* ---- JPEG ---- */

/* colour NULL: noise. */
static int draw_jpeg(FILE *f, int width, int height,
		     const unsigned char *colour, int channels, uint64_t seed)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	JSAMPLE *row = malloc((size_t)width * (size_t)channels);

	if (!row)
		return 0;
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_stdio_dest(&c, f);
	c.image_width = (JDIMENSION)width;
	c.image_height = (JDIMENSION)height;
	c.input_components = channels;
	c.in_color_space = channels == 4 ? JCS_CMYK : JCS_RGB;
	jpeg_set_defaults(&c);
	if (!colour)
		jpeg_set_quality(&c, 90, TRUE);
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < height; y++) {
		for (int i = 0; i < width * channels; i++)
			row[i] = colour ? colour[i % channels]
					: draw_noise(seed, i / channels, y,
						     i % channels);
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	free(row);
	return 1;
}

int main(int argc, char **argv)
{
	unsigned char colour[4] = {0};
	const char *end = argc > 5 ? strrchr(argv[1], '.') : NULL;
	FILE *f = end ? fopen(argv[1], "wb") : NULL;
	int ok;

	if (!f)
		return 2;
	if (!strcmp(argv[4], "noise")) {
		ok = draw_jpeg(f, atoi(argv[2]), atoi(argv[3]), NULL, 3,
			       strtoull(argv[5], NULL, 10));
		return fclose(f) || !ok;
	}
	for (int i = 0; i < 3 && argc > 6; i++)
		colour[i] = (unsigned char)atoi(argv[4 + i]);
	ok = strcmp(end, ".png") == 0
		     ? draw_png(f, atoi(argv[2]), atoi(argv[3]), colour)
		     : draw_jpeg(f, atoi(argv[2]), atoi(argv[3]), colour,
				 argc > 7 ? 4 : 3, 0);
	return fclose(f) || !ok;
}

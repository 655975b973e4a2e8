/* draw_image.c: draw_image FILE WIDTH HEIGHT RED GREEN BLUE [cmyk]: writes a
 * file of one colour, PNG if its name ends in .png, else JPEG. */
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

static int draw_jpeg(FILE *f, int width, int height,
		     const unsigned char *colour, int channels)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	JSAMPLE *row = malloc((size_t)width * (size_t)channels);

	if (!row)
		return 0;
	for (int i = 0; i < width * channels; i++)
		row[i] = colour[i % channels];
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_stdio_dest(&c, f);
	c.image_width = (JDIMENSION)width;
	c.image_height = (JDIMENSION)height;
	c.input_components = channels;
	c.in_color_space = channels == 4 ? JCS_CMYK : JCS_RGB;
	jpeg_set_defaults(&c);
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < height; y++)
		jpeg_write_scanlines(&c, &row, 1);
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	free(row);
	return 1;
}

int main(int argc, char **argv)
{
	unsigned char colour[4] = {0};
	const char *end = argc > 6 ? strrchr(argv[1], '.') : NULL;
	FILE *f = end ? fopen(argv[1], "wb") : NULL;
	int ok;

	if (!f)
		return 2;
	for (int i = 0; i < 3; i++)
		colour[i] = (unsigned char)atoi(argv[4 + i]);
	ok = strcmp(end, ".png") == 0
		     ? draw_png(f, atoi(argv[2]), atoi(argv[3]), colour)
		     : draw_jpeg(f, atoi(argv[2]), atoi(argv[3]), colour,
				 argc > 7 ? 4 : 3);
	return fclose(f) || !ok;
}

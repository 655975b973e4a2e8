/* image.c: which format a file has, and PNG. */
#include "trainers/pack/image.h"

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

/* image_png.c: PNG by libpng's simplified calls. */
#include <png.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/pack/image.h"

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

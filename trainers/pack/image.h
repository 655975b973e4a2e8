/* image.h: decodes JPEG and PNG files, and scales images. Knows neither folders
 * nor packed files. Thread-safe. */
#ifndef TRAINERS_IMAGE_H
#define TRAINERS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	IMAGE_PIXELS_MAX = 100000000, /* larger images are refused: one could
				       * use up the memory */
	IMAGE_SCANS_MAX = 500,	      /* in a progressive JPEG; more could take
				       * for ever */
};

struct image {
	int width, height;
	uint8_t *pixels; /* [height][width][3], RGB */
};

/* Decodes a JPEG or PNG file, as its first bytes say; grey becomes RGB, and
 * transparent pixels are put on black. A JPEG may be decoded at a half, quarter
 * or eighth of its size, which is faster, if the shorter side keeps at least
 * `least` pixels. ERR_DATA: neither format, broken or truncated, CMYK, more
 * than IMAGE_PIXELS_MAX; -ENOMEM. The text begins with the fault, without a
 * name. The caller releases i, also after an error. */
int image_decode(struct image *i, const void *bytes, size_t n, int least,
		 struct err *e);
void image_release(struct image *i);

/* Scales the shorter side to `side`, each pixel being the mean of those under a
 * triangle (as Pillow's BILINEAR), and cuts the middle out:
 * out[3][side][side]. -ENOMEM. */
int image_fit(const struct image *i, int side, uint8_t *out, struct err *e);

/* One for each format; see image_decode. */
int image_decode_jpeg(struct image *i, const void *bytes, size_t n, int least,
		      struct err *e);
int image_decode_png(struct image *i, const void *bytes, size_t n,
		     struct err *e);
/* Allocates the pixels of this size, or refuses it. */
int image_alloc(struct image *i, uint64_t width, uint64_t height,
		struct err *e);

#endif

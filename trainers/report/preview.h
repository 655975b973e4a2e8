/* preview.h: a PNG of a model's input images above its output images. Knows
 * bytes and files, not models. */
#ifndef TRAINERS_PREVIEW_H
#define TRAINERS_PREVIEW_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

/* At most PREVIEW_ROW pairs per row; each pixel is PREVIEW_SCALE pixels
 * wide. */
enum { PREVIEW_ROW = 16, PREVIEW_SCALE = 2, PREVIEW_GAP = 2 };

/* Writes n pairs to path, whole or not at all:
 * before[n][channels][height][width] as bytes, after[n][...] as values on
 * shape's scale. Shows only the first channel, unless there are 1 or 3. Errors
 * name path. */
int preview_write(const char *path, const struct image_shape *shape, int n,
		  const uint8_t *before, const float *after, struct err *e);

#endif

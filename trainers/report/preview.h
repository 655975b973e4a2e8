/* preview.h: images for people to look at, before they read numbers: a PNG of
 * what went in above what came out. Knows bytes and files, not models. */
#ifndef TRAINERS_PREVIEW_H
#define TRAINERS_PREVIEW_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

/* At most PREVIEW_ROW pairs a row, each pixel PREVIEW_SCALE pixels wide. */
enum { PREVIEW_ROW = 16, PREVIEW_SCALE = 2, PREVIEW_GAP = 2 };

/* n pairs, the same that a data set has and the values of shape's scale:
 * before[n] as bytes [channels][height][width], after[n] as values. Writes path
 * whole or not at all. Of 1 or 3 channels; other numbers show the first one.
 * Errors name path. */
int preview_write(const char *path, const struct image_shape *shape, int n,
		  const uint8_t *before, const float *after, struct err *e);

#endif

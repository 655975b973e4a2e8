/* dataset.h: labelled images in memory, and the block of bytes that holds them.
 * Knows neither their source nor the cache (cache.h). */
#ifndef TRAINERS_DATASET_H
#define TRAINERS_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DATASET_SIDE = 28, DATASET_CLASSES = 10 };
enum { DATASET_PIXELS = DATASET_SIDE * DATASET_SIDE };

/* The shape of a sample, and how its bytes become values: channel k is (byte /
 * 255 - mean[k]) / std[k]. */
enum {
	IMAGE_CHANNELS_MAX = 4,
	IMAGE_SIDE_MAX = 4096,
	IMAGE_CLASSES_MAX = 1 << 20
};
struct image_shape {
	int channels, height, width; /* a sample is [channels][height][width]
				      * bytes */
	int classes;
	float mean[IMAGE_CHANNELS_MAX], std[IMAGE_CHANNELS_MAX];
};

/* Samples of equal size, as bytes and, if few are nonzero, also as lists of the
 * nonzero ones: scanned digits are mostly background, and products with zero
 * can be skipped. */
struct samples {
	const uint8_t *pixels;  /* [count][size] */
	size_t size;
	const uint32_t *start;  /* [count + 1]; NULL: no lists */
	const uint16_t *column; /* [start[count]], ascending within a sample */
	const uint8_t *value;   /* [start[count]] */
	int is_file; /* the pixels are mapped from files, perhaps larger than
		      * memory: they are worth reading ahead */
};

/* The training or the test set; borrowed from a payload. */
struct dataset_part {
	uint32_t count;
	struct samples samples; /* each of the shape's size */
	const uint32_t *labels; /* [count], less than the shape's classes */
};

struct dataset {
	struct image_shape shape;
	struct dataset_part train, test;
};

/* A decoded data set as one block, the cache's format: a header with counts and
 * shape, pixels and labels of train and test, and, if at most a third of the
 * pixels are nonzero, their lists (struct samples). */
struct payload {
	void *data;
	size_t size;
};

/* Changes with the layout of a payload; part of the identity of cached ones. */
#define DATASET_FORMAT "payload 4"

/* Pointers to the parts of a new payload, for a decoder to fill. */
struct dataset_room {
	uint8_t *pixels[2]; /* train, test */
	uint32_t *labels[2];
};

/* Allocates a zeroed payload for these numbers of images, without lists, and
 * sets room to its parts. The caller frees p->data. -ENOMEM. */
int dataset_alloc(struct payload *p, const struct image_shape *shape,
		  uint32_t train, uint32_t test, struct dataset_room *room,
		  struct err *e);

/* Appends the lists to a payload whose pixels are set; p->data may move. */
int dataset_add_lists(struct payload *p, struct err *e);

/* Sets d to the parts of a payload; ERR_DATA: it is not valid. */
int dataset_view(const void *data, size_t size, struct dataset *d,
		 struct err *e);

#endif

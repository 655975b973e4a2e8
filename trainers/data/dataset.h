/* dataset.h: labelled images in memory, and the block of bytes that they are.
 * Knows neither where they come from, nor how they are kept (cache.h). */
#ifndef TRAINERS_DATASET_H
#define TRAINERS_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { DATASET_SIDE = 28, DATASET_CLASSES = 10 };
enum { DATASET_PIXELS = DATASET_SIDE * DATASET_SIDE };

/* What a sample is, and how its bytes become values: of channel k
 * (byte / 255 - mean[k]) / std[k]. */
enum { IMAGE_CHANNELS_MAX = 4, IMAGE_SIDE_MAX = 4096, IMAGE_CLASSES_MAX = 256 };
struct image_shape {
	int channels, height, width; /* a sample's bytes, in this order */
	int classes;
	float mean[IMAGE_CHANNELS_MAX], std[IMAGE_CHANNELS_MAX];
};

/* Samples as bytes, all of one size, and the same as lists of the bytes that
 * are not zero, where there are few of those: of a sheet of paper most is
 * white, and a product with zero need not be taken. */
struct samples {
	const uint8_t *pixels;  /* [count][size] */
	size_t size;
	const uint32_t *start;  /* [count + 1]; NULL: there are no lists */
	const uint16_t *column; /* [start[count]], ascending in a sample */
	const uint8_t *value;   /* [start[count]] */
};

/* One set of images, borrowed from a payload. */
struct dataset_part {
	uint32_t count;
	struct samples samples; /* of the shape's bytes each */
	const uint8_t *labels;  /* [count], below the shape's classes */
};

struct dataset {
	struct image_shape shape;
	struct dataset_part train, test;
};

/* A decoded set as one block, which is also what a cache keeps: a header with
 * the counts and the shape, the pixels and labels of train and test, and, where
 * at most a third of the pixels is not zero, their lists (struct samples). */
struct payload {
	void *data;
	size_t size;
};

/* Changes with the layout of a payload; part of a cached one's identity. */
#define DATASET_FORMAT "payload 3"

/* Where a decoder writes. */
struct dataset_room {
	uint8_t *pixels[2], *labels[2]; /* of train, of test */
};

/* Allocates a payload for these counts of images, all zero and without lists,
 * and sets room to its parts. -ENOMEM with a text. The caller frees p->data. */
int dataset_alloc(struct payload *p, const struct image_shape *shape,
		  uint32_t train, uint32_t test, struct dataset_room *room,
		  struct err *e);

/* Appends the lists to a payload whose pixels are there; p->data may move. */
int dataset_add_lists(struct payload *p, struct err *e);

/* Sets d to the parts of a payload; ERR_DATA if that is none. */
int dataset_view(const void *data, size_t size, struct dataset *d,
		 struct err *e);

#endif

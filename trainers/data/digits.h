/* digits.h: synthetic handwritten digits for hosts without MNIST: strokes,
 * distorted and blurred at random, the same in every run. */
#ifndef TRAINERS_DIGITS_H
#define TRAINERS_DIGITS_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

enum { DIGITS_TRAIN = 60000, DIGITS_TEST = 10000 };

/* Changes whenever the drawn digits change. */
#define DIGITS_IDENTITY DATASET_FORMAT "; digits drawn by the trainer, 1"

/* Draws sample `index` of the set with this seed into pixels[DATASET_PIXELS];
 * returns its label. */
int digits_draw(uint64_t seed, uint32_t index, uint8_t *pixels);

/* Draws a set of `train` and `test` samples. The caller frees p->data. */
int digits_make(uint32_t train, uint32_t test, struct payload *p,
		struct err *e);

#endif

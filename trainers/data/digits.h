/* digits.h: digits that the trainer draws itself, for a host that has no MNIST
 * at hand: strokes, bent and blurred at random, the same at every run. */
#ifndef TRAINERS_DIGITS_H
#define TRAINERS_DIGITS_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

enum { DIGITS_TRAIN = 60000, DIGITS_TEST = 10000 };

/* Changes whenever other digits would be drawn. */
#define DIGITS_IDENTITY DATASET_FORMAT "; digits drawn by the trainer, 1"

/* Draws sample number index of the set seed into pixels[DATASET_PIXELS] and
 * returns its label. */
int digits_draw(uint64_t seed, uint32_t index, uint8_t *pixels);

/* Draws a whole set: train and test samples. The caller frees p->data. */
int digits_make(uint32_t train, uint32_t test, struct payload *p,
		struct err *e);

#endif

/* synthetic.h: images of noise for benchmarks, the same in every run. Each
 * class is slightly brighter in one channel. */
#ifndef TRAINERS_SYNTHETIC_H
#define TRAINERS_SYNTHETIC_H

#include "trainers/data/dataset.h"

enum { SYNTHETIC_CLASSES = 10 };

/* Makes train and test images of [3][side][side]. The caller frees p->data. */
int synthetic_make(int side, uint32_t train, uint32_t test, struct payload *p,
		   struct err *e);

/* The number of images of this side to make: about 256 MB, at most 50,000. */
uint32_t synthetic_count(int side);

#endif

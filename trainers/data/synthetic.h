/* synthetic.h: images of noise, for measuring how fast a model trains: the same
 * at every run. A class shines a little in one of the channels. */
#ifndef TRAINERS_SYNTHETIC_H
#define TRAINERS_SYNTHETIC_H

#include "trainers/data/dataset.h"

enum { SYNTHETIC_CLASSES = 10 };

/* Draws train and test images of 3 x side x side. The caller frees p->data. */
int synthetic_make(int side, uint32_t train, uint32_t test, struct payload *p,
		   struct err *e);

/* How many images of this side are worth keeping: some 256 MB of them, and not
 * over 50,000. */
uint32_t synthetic_count(int side);

#endif

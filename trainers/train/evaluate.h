/* evaluate.h: the test set through the model, each sample once, by some rank;
 * and a picture of what it makes of some. */
#ifndef TRAINERS_EVALUATE_H
#define TRAINERS_EVALUATE_H

#include "trainers/train/run.h"

struct result {
	double loss;
	double accuracy; /* percent; < 0 where the model has none */
};

/* Collective. With rank 0's running statistics, as PyTorch's DDP has them.
 * RUN_STOPPED: it was asked to stop, and there is no result. */
int evaluate(struct run *run, struct result *out, struct err *e);

/* Rank 0: --save-images. */
int evaluate_preview(struct run *run, struct err *e);

#endif

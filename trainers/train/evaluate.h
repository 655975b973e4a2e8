/* evaluate.h: runs the test set through the model, each sample on one rank, and
 * makes a picture of some outputs. */
#ifndef TRAINERS_EVALUATE_H
#define TRAINERS_EVALUATE_H

#include "trainers/train/run.h"

struct result {
	double loss;
	double accuracy; /* percent; < 0: the model has none */
};

/* Collective. Uses rank 0's running statistics, as PyTorch's DDP does.
 * RUN_STOPPED: the run was asked to stop, and *out is not set. */
int evaluate(struct run *run, struct result *out, struct err *e);

/* Rank 0: writes the picture of --save-images. */
int evaluate_preview(struct run *run, struct err *e);

#endif

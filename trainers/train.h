/* train.h: the one training loop. A trainer is a description and a main of one
 * line; all the rest, from the options to the last line of output, is here. */
#ifndef TRAINERS_TRAIN_H
#define TRAINERS_TRAIN_H

#include "trainers/model.h"

struct trainer {
	struct model_spec model;
	const char *about; /* a sentence for --help */
	long epochs;       /* the options' defaults */
	long batch;
	double lr;
};

/* Runs the trainer as one rank of a job (or alone) and returns its exit status:
 * 0, 2 for a wrong command line or environment, 1 for everything else. */
int train_main(const struct trainer *t, int argc, char **argv);

#endif

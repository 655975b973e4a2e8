/* train.h: the one training loop. A trainer is a description and a main of one
 * line; all the rest, from the options to the last line of output, is here. */
#ifndef TRAINERS_TRAIN_H
#define TRAINERS_TRAIN_H

#include "trainers/data/host_data.h"
#include "trainers/models/net.h"
#include "trainers/train/recipe.h"
#include "trainers/train/trainer_options.h"

struct trainer {
	const char *name;  /* of the program */
	const char *about; /* a sentence for --help */
	unsigned features; /* enum trainer_feature: the options that it has */
	/* What it trains: this, or, where the options have a say, what
	 * make_model gives for images of this shape; release_model (may be
	 * NULL) frees it. */
	struct model_spec model;
	int (*make_model)(struct model_spec *out,
			  const struct trainer_options *o,
			  const struct image_shape *input, struct err *e);
	void (*release_model)(struct model_spec *spec);
	enum data_kind data;
	long epochs; /* the options' defaults */
	long batch;
	const struct recipe *recipes; /* the first is the default; the last one
					 has no name */
};

/* Runs the trainer as one rank of a job (or alone) and returns its exit status:
 * 0, 2 for a wrong command line or environment, 143 where SIGTERM or the
 * launcher ended it and its state was kept, 1 for everything else. */
int train_main(const struct trainer *t, int argc, char **argv);

#endif

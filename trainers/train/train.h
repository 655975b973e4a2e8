/* train.h: the training loop that all models share. A trainer is a struct
 * trainer and a main of one line; options, data, devices, checkpoints and
 * output are handled here. */
#ifndef TRAINERS_TRAIN_H
#define TRAINERS_TRAIN_H

#include "trainers/data/host_data.h"
#include "trainers/models/net.h"
#include "trainers/train/recipe.h"
#include "trainers/train/trainer_options.h"

struct trainer {
	const char *name;  /* the program */
	const char *about; /* one sentence for --help */
	unsigned features; /* enum trainer_feature: which options exist */
	/* The model. If the options choose it, make_model fills in *out for
	 * images of shape input, and release_model (may be NULL) frees it. */
	struct model_spec model;
	int (*make_model)(struct model_spec *out,
			  const struct trainer_options *o,
			  const struct image_shape *input, struct err *e);
	void (*release_model)(struct model_spec *spec);
	enum data_kind data;
	long epochs; /* defaults of the options */
	long batch;
	const struct recipe *recipes; /* the first is the default; ends with one
				       * without a name */
};

/* Runs the trainer as one rank of a job, or alone. Returns the exit status: 0;
 * 2 for a wrong command line or environment; 143 if SIGTERM or the launcher
 * stopped it and its state was saved; 1 for every other failure. */
int train_main(const struct trainer *t, int argc, char **argv);

#endif

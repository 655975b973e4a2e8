/* train_state.h: all that a training run must keep to go on bit by bit: the
 * parameters, running statistics, the optimizer's moments, and how far it came.
 * Saved by one rank. */
#ifndef TRAINERS_TRAIN_STATE_H
#define TRAINERS_TRAIN_STATE_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/models/net.h"

/* Fixed layout: it is a section of the checkpoint. */
struct train_position {
	int64_t epoch;  /* epochs done */
	int64_t sample; /* samples of the epoch after them that are done, all
			   ranks together: where the sampler goes on */
	int64_t step;   /* steps done, of all epochs */
	int64_t seed;
	int64_t batch;  /* of all ranks together */
};

struct train_state {
	struct net *net; /* borrowed */
	float *moment[2]; /* the optimizer's, one arena each; NULL: has none */
	struct train_position at;
};

/* Moments are zero, nothing is done. The caller frees with _release, also
 * after an error. */
int train_state_init(struct train_state *s, struct net *net,
		     const struct optimizer *optimizer, struct err *e);
void train_state_release(struct train_state *s);

/* Writes the checkpoint path whole or not at all. Errors are libddp's. */
int train_state_save(struct train_state *s, const char *path, struct err *e);

/* Reads it back; s->at.seed and .batch hold what this run was told and must be
 * the file's; samples is how many an epoch has. Returns 1, 0 if there is no
 * such file, or an error, after which s is as before. */
int train_state_load(struct train_state *s, const char *path, uint64_t samples,
		     struct err *e);

#endif

/* train_state.h: all that a training run must keep to go on bit by bit: the
 * parameters, running statistics, the optimizer's moments, and how far it came;
 * and what kind of run it was. Saved by one rank. Of chance there is the seed:
 * all orders, crops and flips follow from it and the epoch. */
#ifndef TRAINERS_TRAIN_STATE_H
#define TRAINERS_TRAIN_STATE_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/models/net.h"
#include "trainers/train/schedule.h"

/* Fixed layout: it is a section of the checkpoint. */
struct train_position {
	int64_t epoch;  /* epochs done, with all that comes at their end */
	int64_t sample; /* samples of the epoch after them that are done, all
			   ranks together: where the sampler goes on */
	int64_t step;   /* updates done, of all epochs */
	int64_t seed;
	double loss; /* of those samples, summed */
};

/* What changes nothing in a file's layout, and may be another when a run goes
 * on. Fixed layout: a section, too. */
struct train_about {
	int64_t batch; /* of all ranks together */
	int64_t micro; /* samples that a rank computes at once */
	int64_t world_size;
	int64_t sync_bn, bf16;
	int64_t schedule, warmup, total; /* schedule.h */
	double lr, momentum, weight_decay, smoothing;
	int64_t nesterov, augment;
	char device[128]; /* device->name */
};

struct train_state {
	struct net *net; /* borrowed */
	float *moment[2]; /* the optimizer's, one arena each; NULL: has none */
	enum optimizer_kind optimizer;
	struct train_position position;
	struct train_about about; /* of this run */
};

/* Moments are zero, nothing is done. The caller frees with _release, also
 * after an error. */
int train_state_init(struct train_state *s, struct net *net,
		     const struct optimizer *optimizer, struct err *e);
void train_state_release(struct train_state *s);

/* Writes the checkpoint path whole or not at all. Errors are libddp's. */
int train_state_save(struct train_state *s, const char *path, struct err *e);

/* Reads it back; s->position.seed holds what this run was told and must be the
 * file's; samples is how many an epoch has. was is what the file's run was.
 * Returns 1, 0 if there is no such file, or an error, after which s is as
 * before. */
int train_state_load(struct train_state *s, const char *path, uint64_t samples,
		     struct train_about *was, struct err *e);

/* What of now is not as it was, in words, each with what it means:
 * "4 ranks instead of 2 (sums are rounded in another order); ..." Pure.
 * Returns out, which is "" where nothing changes. */
const char *train_about_changes(const struct train_about *was,
				const struct train_about *now, char *out,
				size_t size);

/* The state of rank 0 to all ranks, through the host's memory. */
struct ddp_comm;
int train_state_share(struct train_state *s, struct ddp_comm *world,
		      struct err *e);

#endif

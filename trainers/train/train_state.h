/* train_state.h: everything that a run needs to continue bit for bit:
 * parameters, running statistics, the optimizer's moments and the position; and
 * a description of the run. One rank saves it. The only randomness is the seed:
 * orders, crops and flips follow from it and the epoch. */
#ifndef TRAINERS_TRAIN_STATE_H
#define TRAINERS_TRAIN_STATE_H

#include <stdint.h>

#include "base/error.h"
#include "trainers/models/net.h"
#include "trainers/train/schedule.h"

/* Fixed layout: a section of the checkpoint. */
struct train_position {
	int64_t epoch;  /* epochs complete, with their evaluation */
	int64_t sample; /* samples of the next epoch that are done, over all
			 * ranks: where the sampler continues */
	int64_t step;   /* updates done, over all epochs */
	int64_t seed;
	double loss; /* summed over those samples */
};

/* Properties of a run that may differ when it continues. Fixed layout: a
 * section of the checkpoint. */
struct train_about {
	int64_t batch; /* over all ranks */
	int64_t micro; /* samples that a rank computes at once */
	int64_t world_size;
	int64_t sync_bn;
	int64_t precision;		 /* enum precision */
	int64_t schedule, warmup, total; /* schedule.h */
	double lr, momentum, weight_decay, smoothing;
	int64_t nesterov, augment;
	char device[120]; /* device->name */
	int64_t crop_size; /* --crop-size; 0: the images' size */
};

struct train_state {
	struct net *net; /* borrowed */
	float *moment[2]; /* [arena] each, the optimizer's; NULL: it has none */
	struct loss_scaler *scaler; /* on the device; NULL: losses are not
				     * scaled */
	enum optimizer_kind optimizer;
	struct train_position position;
	struct train_about about; /* this run's */
};

/* Starts with zero moments at step 0. The caller frees with _release, also
 * after an error. */
int train_state_init(struct train_state *s, struct net *net,
		     const struct optimizer *optimizer, struct err *e);
/* Makes s->scaler, which begins with this scale. */
int train_state_scale_loss(struct train_state *s, float scale, struct err *e);
/* Reads the scaler from the device; all zero if there is none. Waits. */
struct loss_scaler train_state_scaler(const struct train_state *s);
void train_state_release(struct train_state *s);

/* Writes the checkpoint at path, whole or not at all. Errors are libddp's. */
int train_state_save(struct train_state *s, const char *path, struct err *e);

/* Reads the checkpoint at path. Its seed must equal s->position.seed; an epoch
 * has `samples` samples. If only one of the two has a scaler, the file's is
 * ignored, or s's stays. Sets *was to the description of the run that wrote it.
 * Returns 1, 0 if the file does not exist, or an error, which leaves s
 * unchanged. */
int train_state_load(struct train_state *s, const char *path, uint64_t samples,
		     struct train_about *was, struct err *e);

/* Writes the differences between the two runs, and what each means, to out: "4
 * ranks instead of 2 (sums are rounded in another order); ...", or "". Pure;
 * returns out. */
const char *train_about_changes(const struct train_about *was,
				const struct train_about *now, char *out,
				size_t size);

/* Collective: copies rank 0's state to all ranks, through host memory. */
struct ddp_comm;
int train_state_share(struct train_state *s, struct ddp_comm *world,
		      struct err *e);

/* Collective on world. Compares parameters and moments over the ranks: 0, or on
 * all ranks ERR_DATA with a text that names the ranks that differ, and the
 * layer. */
int train_state_check(const struct train_state *s, struct ddp_comm *world,
		      struct err *e);

#endif

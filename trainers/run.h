/* run.h: one rank's training run: all that it holds, and how its ranks fail
 * together. For the files of the training loop. */
#ifndef TRAINERS_RUN_H
#define TRAINERS_RUN_H

#include "trainers/data/host_data.h"
#include "trainers/metrics.h"
#include "trainers/progress.h"
#include "trainers/train.h"
#include "trainers/train_state.h"
#include "trainers/trainer_options.h"
#include "worker-sdk/ddp.h"

/* What a rank returns that has nothing to say, because another one says it. */
enum { RUN_SAID_ELSEWHERE = -30001 };
enum { RUN_EVAL_BATCH = 250 };

struct run {
	const struct trainer *t;
	struct trainer_options o;
	struct model_spec spec; /* what is trained */
	const struct ops *ops;
	struct device *device;
	ddp_comm *world;
	int rank, world_size;

	struct host_data data;
	struct ddp_sampler sampler; /* of the training part */
	uint32_t *order; /* of an epoch or an evaluation, this rank's samples */
	struct feed *feed, *test_feed;
	struct net net;
	ddp_reducer *reducer; /* of the net's gradients, and its loss */
	int *slot;            /* [layer_count + 1]: a layer's place in it */
	int reducing;         /* how it goes in this step: 0, or an error */
	struct train_state state;
	struct metrics metrics;
	struct progress progress;

	int batch; /* samples a step of this rank */
};

/* r if it is no error, else libddp's text in e. */
int run_from_ddp(int r, struct err *e);

/* Every rank comes here with 0 or its error; unless all have 0, all fail, and
 * the lowest of those with an error says it. */
int run_together(struct run *x, int r, struct err *e);

/* For an error that all ranks find at the same time: rank 0 says it. */
int run_fail_alike(struct run *x, int r);

/* After ddp_init: data, model and first state, on all ranks. */
int run_set_up(struct run *x, struct err *e);

/* Frees all but the world; metrics are closed before. */
void run_release(struct run *x);

#endif

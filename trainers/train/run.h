/* run.h: one rank's training run: all that it holds, and how its ranks fail
 * together. For the files of the training loop. */
#ifndef TRAINERS_RUN_H
#define TRAINERS_RUN_H

#include "trainers/data/host_data.h"
#include "trainers/report/metrics.h"
#include "trainers/report/progress.h"
#include "trainers/train/recipe.h"
#include "trainers/train/train.h"
#include "trainers/train/train_state.h"
#include "trainers/train/trainer_options.h"
#include "worker-sdk/ddp.h"

/* What a rank returns that has nothing to say, because another one says it; and
 * one that was asked to stop, and did. */
enum { RUN_REPORTED_ELSEWHERE = -30001, RUN_STOPPED = -30002 };
enum { RUN_EVAL_BATCH = 250 };

struct run {
	const struct trainer *trainer;
	struct trainer_options options;
	char **argv;
	int argc;
	struct recipe recipe;
	struct model_spec spec; /* what is trained */
	const struct ops *ops;
	struct device *device;
	ddp_comm *world;
	int rank, world_size;

	struct host_data data;
	struct ddp_sampler sampler;      /* of the training part */
	struct ddp_sampler test_sampler; /* each sample once */
	uint32_t *order; /* of an epoch or an evaluation, this rank's samples */
	struct loader *loader, *test_loader;
	struct net net;
	ddp_reducer *reducer; /* of the net's gradients, and its loss; NULL:
				 there is one rank, or they lie where libddp
				 cannot reach, and go through `staged` */
	float *staged;        /* the gradients' arena in the host's memory */
	int *reducer_index;   /* [layer_count + 1]: a layer's place in it */
	int reduce_rc;         /* how it goes in this step: 0, or an error */
	struct graph *graph;  /* where the device records: the whole step, of
				 several ranks its gradients */
	int eager_steps;      /* done before it was recorded; < 0: it cannot
				 be */
	struct train_state state;
	struct metrics metrics;
	struct progress progress;

	int batch, micro; /* samples a step, and a micro-batch, of this rank */
	int eval_batch;
	struct schedule schedule;
	uint64_t epoch_steps, total_steps;
	/* Of this epoch, as far as this process did it. */
	double seconds, samples;
	uint64_t steps, input_ns; /* ns spent on batches */
	/* Whether to stop is asked at step `check`; it was at `step`, at
	 * time ns. */
	struct {
		int64_t check, step;
		uint64_t time;
	} stop;
	struct {
		uint64_t done, time;
	} steady; /* from here on steps take as long as they do */
	uint64_t start; /* of the run, ns */
	int unsaved;           /* the last checkpoint could not be written */
};

/* r if it is no error, else libddp's text in e. */
int run_from_ddp(int r, struct err *e);

/* Every rank comes here with 0 or its error; unless all have 0, all fail, and
 * the lowest of those with an error says it. */
int run_agree(struct run *run, int r, struct err *e);

/* After ddp_init: data, model and first state, on all ranks. */
int run_set_up(struct run *run, struct err *e);

/* Steps done, as the schedule counts: of whole epochs, and of this one. */
uint64_t run_done(const struct run *run);

/* Frees all but the world; metrics are closed before. */
void run_release(struct run *run);

#endif

/* run.h: the state of one rank's training run, its set-up, and how its ranks
 * fail together. Shared by the files of the training loop. */
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

/* RUN_REPORTED_ELSEWHERE: another rank reports the error, this one stays
 * silent. RUN_STOPPED: the run was asked to stop, and has. */
enum { RUN_REPORTED_ELSEWHERE = -30001, RUN_STOPPED = -30002 };
enum { RUN_EVAL_BATCH = 250 };

struct run {
	const struct trainer *trainer;
	struct trainer_options options;
	char **argv;
	int argc;
	struct recipe recipe;
	struct model_spec spec; /* the model */
	const struct ops *ops;
	struct device *device;
	ddp_comm *world;
	int rank, world_size;

	struct host_data data;
	struct ddp_sampler sampler;      /* over the training set */
	struct ddp_sampler test_sampler; /* over the test set, each sample
					  * once */
	uint32_t *order; /* this rank's samples of an epoch or an evaluation */
	struct loader *loader, *test_loader;
	struct net net;
	ddp_reducer *reducer; /* reduces the gradients and the loss. NULL: one
			       * rank, or libddp cannot reach the gradients,
			       * which go through `staged` */
	float *staged;        /* [arena + NET_LOSS_VALUES], host memory: a copy
			       * of the gradients and the loss */
	int *reducer_index;   /* [layer_count + 1]: a layer's parameter in the
			       * reducer */
	float loss_share;      /* factor of each rank's loss: the reducer sums,
			       * so 1 / world_size with it, else 1 */
	struct loss_scaler scaler; /* fp16: a copy, as of the last step_loss */
	uint64_t skipped;          /* its `skipped` as of the last report */
	int reduce_rc;         /* result of the reducer's calls in this step */
	struct graph *graph;  /* where the device can capture: the whole step,
			       * or, with several ranks, the forward and
			       * backward pass */
	int eager_steps;      /* steps run before the capture; < 0: a step
			       * cannot be captured */
	struct train_state state;
	struct metrics metrics;
	struct progress progress;

	int batch, micro; /* this rank's samples in a step, and in a
			   * micro-batch */
	int eval_batch;
	struct schedule schedule;
	uint64_t epoch_steps, total_steps;
	/* This process's share of the current epoch. */
	double seconds, samples;
	uint64_t steps, input_ns; /* ns spent loading batches */
	/* The ranks next ask whether to stop at step `check`; they last asked
	 * at `step`, at `time` (ns). */
	struct {
		int64_t check, step;
		uint64_t time;
	} stop;
	struct {
		uint64_t done, time;
	} steady; /* throughput is measured from here: steps done, ns */
	uint64_t start; /* ns */
	int unsaved;           /* the last checkpoint could not be written */
};

/* r if it is >= 0; else r, with libddp's text in *e. */
int run_from_ddp(int r, struct err *e);

/* Collective. r is 0 or this rank's error, whose text is in *e. Returns 0 if r
 * is 0 on all ranks. Else all ranks fail: the lowest with an error returns it,
 * the others RUN_REPORTED_ELSEWHERE. */
int run_agree(struct run *run, int r, struct err *e);
int run_agree_among(ddp_comm *world, int r, struct err *e);

/* Collective, after ddp_init: opens data and device, makes the model, and gives
 * all ranks the first state. */
int run_set_up(struct run *run, struct err *e);

/* Steps done so far, as the schedule counts them: those of whole epochs and of
 * the current one. */
uint64_t run_done(const struct run *run);

/* Frees everything but the world. The caller closes the metrics first. */
void run_release(struct run *run);

/* ---- evaluate.c ----
 *
 * Runs the test set through the model, each sample on one rank, and makes a
 * picture of some outputs. */

struct result {
	double loss;
	double accuracy; /* percent; < 0: the model has none */
};

/* Collective. Uses rank 0's running statistics, as PyTorch's DDP does.
 * RUN_STOPPED: the run was asked to stop, and *out is not set. */
int evaluate(struct run *run, struct result *out, struct err *e);

/* Rank 0: writes the picture of --save-images. */
int evaluate_preview(struct run *run, struct err *e);

/* ---- step.c ----
 *
 * One step of training: forward and backward over this rank's part of the batch
 * (in micro-batches with --accumulate), the average over the ranks, the
 * update. */

/* Runs the step whose batch starts at sample `first` of this rank's epoch, and
 * advances run->state.position. On a GPU the step is queued, not done, when
 * this returns. */
int step_run(struct run *run, uint64_t first, struct err *e);

/* Waits for all queued work and sets *loss to the loss of the last step, over
 * all ranks, and run->scaler; `first` is that step's. Collective. ERR_DATA: the
 * loss of some step was not finite, or with --precision fp16 the gradients of
 * several in a row, until the scale was too small (no parameters were updated
 * since); the text names that step and the first layer with such a value. */
int step_loss(struct run *run, uint64_t first, float *loss, struct err *e);

/* Frees the captured graph. */
void step_release(struct run *run);

#endif

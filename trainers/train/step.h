/* step.h: one step of training: forward and backward over this rank's part of
 * the batch (in micro-batches with --accumulate), the average over the ranks,
 * the update. */
#ifndef TRAINERS_STEP_H
#define TRAINERS_STEP_H

#include "trainers/train/run.h"

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

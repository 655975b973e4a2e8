/* step.h: one step of training: this rank's part of the batch, in micro-batches
 * where that is asked for, the average over the ranks, the update. */
#ifndef TRAINERS_STEP_H
#define TRAINERS_STEP_H

#include "trainers/train/run.h"

/* The step whose batch begins with sample `first` of this rank's epoch. Moves
 * run->state.position on. On a GPU it is queued, not done. */
int step_run(struct run *run, uint64_t first, struct err *e);

/* Waits for what is queued. The loss of the last step, over all ranks, into
 * *loss. Where a step's loss was not finite (nothing was updated since): the
 * text names that step and the first layer that has such a value. All ranks
 * call it at the same steps; first is the last step's. */
int step_loss(struct run *run, uint64_t first, float *loss, struct err *e);

/* Frees what step_run made. */
void step_release(struct run *run);

#endif

/* resume.h: the state that a run starts with, new or from a checkpoint, and the
 * writing of checkpoints. Called on rank 0. */
#ifndef TRAINERS_RESUME_H
#define TRAINERS_RESUME_H

#include "trainers/train/run.h"

/* Loads the checkpoint that --resume names, or, in a job that the launcher
 * restarted, the newest whole one of its own; else initialises the weights.
 * Prints where the run continues and what changes. A run that starts from
 * scratch renames another run's checkpoints at the same path. */
int resume_first_state(struct run *run, struct err *e);

/* Writes the file of --checkpoint. A failure is logged as a warning and sets
 * run->unsaved until a write succeeds; the old file stays. */
void resume_save(struct run *run);

#endif

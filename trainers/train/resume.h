/* resume.h: where a run begins: anew, or from a checkpoint; and writing one. On
 * rank 0. */
#ifndef TRAINERS_RESUME_H
#define TRAINERS_RESUME_H

#include "trainers/train/run.h"

/* By --resume; where the launcher has restarted the job, from the newest whole
 * checkpoint of its own. Says from where, and what changes. An older run's
 * checkpoint at the same place is set aside by one that begins anew. */
int resume_first_state(struct run *run, struct err *e);

/* Writes --checkpoint's file. What goes wrong is a warning: the file that was
 * there stays, run->unsaved is set until one was written. */
void resume_save(struct run *run);

#endif

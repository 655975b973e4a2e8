/* resume.h: the state that a run starts with, new or from a checkpoint, and the
 * writing of checkpoints, of which --keep keeps several. Called on rank 0. */
#ifndef TRAINERS_RESUME_H
#define TRAINERS_RESUME_H

#include "trainers/train/run.h"

/* Loads the checkpoint that --resume names, or, in a job that the launcher
 * restarted, the newest whole one of its own; else initialises the weights.
 * Prints where the run continues and which settings changed. A run that starts
 * from scratch renames another run's checkpoints at the same path. */
int resume_first_state(struct run *run, struct err *e);

/* Writes the file of --checkpoint. A failure is logged as a warning and sets
 * run->unsaved until a write succeeds; the old file stays. */
void resume_save(struct run *run);

/* ---- the names of checkpoints ----
 *
 * Names of the checkpoints that --keep keeps: FILE is the newest, FILE.1 the
 * one before, and so on. Knows names, not contents. One process at a time. */

enum { CHECKPOINT_PATH_MAX = 4096, CHECKPOINT_KEEP_MAX = 99 };

/* Writes FILE, or FILE.i if i > 0, to out. */
void checkpoint_rotate_name(const char *file, int i,
			    char out[CHECKPOINT_PATH_MAX]);

/* Call these around the writing of FILE, which must replace it atomically.
 * begin gives the old file a second name. end, after a success (ok), makes that
 * file FILE.1, renumbers the others and removes those beyond keep; after a
 * failure it restores the old file. If the process ends at any moment, the old
 * file or the new one exists. With keep 1 both do nothing. */
void checkpoint_rotate_begin(const char *file, long keep);
void checkpoint_rotate_end(const char *file, long keep, int ok);

/* Call before a run starts from scratch: renames checkpoints of another run to
 * FILE.before, FILE.before.1, ..., so that a restart of this run does not
 * resume from them. Returns the number of files renamed. */
int checkpoint_rotate_aside(const char *file);

#endif

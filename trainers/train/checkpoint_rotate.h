/* checkpoint_rotate.h: how many checkpoints there are: FILE is the newest,
 * FILE.1 the one before, and so on. Knows names, not what is in the files. One
 * process at a time. */
#ifndef TRAINERS_CHECKPOINT_ROTATE_H
#define TRAINERS_CHECKPOINT_ROTATE_H

#include <stddef.h>

enum { CHECKPOINT_PATH_MAX = 4096, CHECKPOINT_KEEP_MAX = 99 };

/* FILE, or FILE.i where i > 0, into out. */
void checkpoint_rotate_name(const char *file, int i,
			    char out[CHECKPOINT_PATH_MAX]);

/* Around the writing of a new FILE, which replaces it in one moment. begin
 * gives the old one a second name; end, when the new one is there (ok), makes
 * that FILE.1 and moves the others on, the one after the last away; else it
 * takes it back. At no time, however the process ends, is there neither the old
 * nor the new one. With keep 1 both do nothing. */
void checkpoint_rotate_begin(const char *file, long keep);
void checkpoint_rotate_end(const char *file, long keep, int ok);

/* Before a run begins anew: checkpoints of another run become FILE.before,
 * FILE.before.1, ... so that a restart cannot take them for its own. Returns
 * how many there were. */
int checkpoint_rotate_aside(const char *file);

#endif

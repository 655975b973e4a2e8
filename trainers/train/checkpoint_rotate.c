/* checkpoint_rotate.c: renames checkpoints. */
#include "trainers/train/checkpoint_rotate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void checkpoint_rotate_name(const char *file, int i,
			    char out[CHECKPOINT_PATH_MAX])
{
	if (i)
		snprintf(out, CHECKPOINT_PATH_MAX, "%.4080s.%d", file, i);
	else
		snprintf(out, CHECKPOINT_PATH_MAX, "%s", file);
}

static void checkpoint_old_name(const char *file, char out[CHECKPOINT_PATH_MAX])
{
	snprintf(out, CHECKPOINT_PATH_MAX, "%s.old", file);
}

void checkpoint_rotate_begin(const char *file, long keep)
{
	char old[CHECKPOINT_PATH_MAX];

	if (keep < 2)
		return;
	checkpoint_old_name(file, old);
	unlink(old);
	/* the write replaces the target of a symbolic link */
	if (linkat(AT_FDCWD, file, AT_FDCWD, old, AT_SYMLINK_FOLLOW) < 0 &&
	    errno != ENOENT)
		rename(file, old); /* the file system has no hard links */
}

void checkpoint_rotate_end(const char *file, long keep, int ok)
{
	char old[CHECKPOINT_PATH_MAX], from[CHECKPOINT_PATH_MAX],
		to[CHECKPOINT_PATH_MAX];

	if (keep < 2)
		return;
	checkpoint_old_name(file, old);
	if (!ok) {
		if (access(file, F_OK) < 0)
			rename(old, file);
		else
			unlink(old);
		return;
	}
	if (access(old, F_OK) < 0)
		return;
	for (int i = (int)keep - 1; i > 1; i--) {
		checkpoint_rotate_name(file, i - 1, from);
		checkpoint_rotate_name(file, i, to);
		rename(from, to);
	}
	checkpoint_rotate_name(file, 1, to);
	rename(old, to);
}

int checkpoint_rotate_aside(const char *file)
{
	char before[CHECKPOINT_PATH_MAX], from[CHECKPOINT_PATH_MAX],
		to[CHECKPOINT_PATH_MAX];
	char *real = realpath(file, NULL); /* a symbolic link stays in place */
	int n = 0;

	if (real && snprintf(before, sizeof(before), "%s.before", real) <
			    (int)sizeof(before))
		n += rename(real, before) == 0;
	free(real);
	snprintf(before, sizeof(before), "%s.before", file);
	for (int i = 1; i <= CHECKPOINT_KEEP_MAX; i++) {
		checkpoint_rotate_name(file, i, from);
		checkpoint_rotate_name(before, i, to);
		n += rename(from, to) == 0;
	}
	return n;
}

/* keep.c: names of files. */
#include "trainers/train/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void keep_name(const char *file, int i, char out[KEEP_PATH_MAX])
{
	if (i)
		snprintf(out, KEEP_PATH_MAX, "%.4080s.%d", file, i);
	else
		snprintf(out, KEEP_PATH_MAX, "%s", file);
}

static void old_name(const char *file, char out[KEEP_PATH_MAX])
{
	snprintf(out, KEEP_PATH_MAX, "%s.old", file);
}

void keep_begin(const char *file, long keep)
{
	char old[KEEP_PATH_MAX];

	if (keep < 2)
		return;
	old_name(file, old);
	unlink(old);
	/* what a symbolic link leads to is what will be replaced */
	if (linkat(AT_FDCWD, file, AT_FDCWD, old, AT_SYMLINK_FOLLOW) < 0 &&
	    errno != ENOENT)
		rename(file, old); /* a file system without second names */
}

void keep_end(const char *file, long keep, int ok)
{
	char old[KEEP_PATH_MAX], from[KEEP_PATH_MAX], to[KEEP_PATH_MAX];

	if (keep < 2)
		return;
	old_name(file, old);
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
		keep_name(file, i - 1, from);
		keep_name(file, i, to);
		rename(from, to);
	}
	keep_name(file, 1, to);
	rename(old, to);
}

int keep_aside(const char *file)
{
	char before[KEEP_PATH_MAX], from[KEEP_PATH_MAX], to[KEEP_PATH_MAX];
	char *real = realpath(file, NULL); /* a link stays where it is */
	int n = 0;

	if (real && snprintf(before, sizeof before, "%s.before", real) <
			    (int)sizeof before)
		n += rename(real, before) == 0;
	free(real);
	snprintf(before, sizeof before, "%s.before", file);
	for (int i = 1; i <= KEEP_MOST; i++) {
		keep_name(file, i, from);
		keep_name(before, i, to);
		n += rename(from, to) == 0;
	}
	return n;
}

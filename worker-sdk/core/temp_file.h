/* temp_file.h: a file that is written under a name of its own, beside the one
 * that it replaces when it is whole. Any number of writers, on any number of
 * hosts and in any containers, may replace the same file at once: each has a
 * file of its own, and the last one that is whole stays.
 *
 * The name is NAME.tmp.KERNEL.RANDOM, of 8 hex digits each. The writer holds a
 * lock on its file. The next writer removes what killed ones left: at once if
 * that one ran on the same kernel, where locks can be trusted, else when nobody
 * has written to it for an hour. */
#ifndef SDK_TEMP_FILE_H
#define SDK_TEMP_FILE_H

#include <limits.h>

enum { DDP__ABANDONED_S = 3600 };

struct ddp__temp_file {
	int dir; /* borrowed */
	int fd;	 /* -1: none; the owner's */
	char name[NAME_MAX + 1];
};

/* Makes an empty one for `name` in the folder dir: 0 or -errno. */
int ddp__temp_file_make(struct ddp__temp_file *t, int dir, const char *name);
/* Gives it that name, in place of what had it: 0 or -errno. -ESTALE: somebody
 * removed it. */
int ddp__temp_file_rename(struct ddp__temp_file *t, const char *name);
/* Removes it, if it has not been renamed, and closes it. */
void ddp__temp_file_end(struct ddp__temp_file *t);

/* Removes what killed writers of `name` left, beside t, which is new. */
void ddp__temp_file_tidy(const struct ddp__temp_file *t, const char *name);

#endif

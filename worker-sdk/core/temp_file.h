/* temp_file.h: a file that is written under a temporary name and then replaces
 * another. Any number of writers, on any hosts and in any containers, may
 * replace the same file at once: each has its own temporary file, and the last
 * complete file stays.
 *
 * The name is NAME.tmp.KERNEL.RANDOM, 8 hex digits each. The writer holds a
 * lock on its file. The next writer removes files of killed writers: at once if
 * they ran on the same kernel, where locks are reliable, else after an hour
 * without a write. */
#ifndef SDK_TEMP_FILE_H
#define SDK_TEMP_FILE_H

#include <limits.h>

enum { DDP__ABANDONED_S = 3600 };

struct ddp__temp_file {
	int dir; /* borrowed */
	int fd;	 /* -1: none; closed by _end */
	char name[NAME_MAX + 1];
};

/* Creates an empty temporary file for `name` in directory dir. 0 or -errno. */
int ddp__temp_file_make(struct ddp__temp_file *t, int dir, const char *name);
/* Renames the file to name, replacing an old file. 0 or -errno; -ESTALE:
 * another process removed the temporary file. */
int ddp__temp_file_rename(struct ddp__temp_file *t, const char *name);
/* Closes the file, and removes it unless it was renamed. */
void ddp__temp_file_end(struct ddp__temp_file *t);

/* Removes temporary files of killed writers of `name`, other than t. */
void ddp__temp_file_tidy(const struct ddp__temp_file *t, const char *name);

#endif

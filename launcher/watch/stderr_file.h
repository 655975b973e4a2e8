/* stderr_file.h: the file to which a program has redirected its stderr, so that
 * we see none of it: opened while the program lives, read once it is dead. */
#ifndef LAUNCHER_STDERR_FILE_H
#define LAUNCHER_STDERR_FILE_H

#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

enum { STDERR_FILE_TAIL = 8 << 10 };

/* Zeroed: none. */
struct stderr_file {
	int is_open, fd;
	dev_t device;
	ino_t inode;
};

/* Looks which file that process has as its stderr. Opens it if it is a regular
 * file that we may read; a process that has gone changes nothing. */
void stderr_file_look(struct stderr_file *f, pid_t pid);
/* Appends its last bytes, from the begin of a line on, if it was written to
 * since then. */
void stderr_file_put(const struct stderr_file *f, time_t since,
		     struct buf *out);
void stderr_file_close(struct stderr_file *f);

#endif

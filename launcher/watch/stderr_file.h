/* stderr_file.h: the file to which a program has redirected its stderr, so that
 * we see none of it: found while the program lives, read once it is dead. */
#ifndef LAUNCHER_STDERR_FILE_H
#define LAUNCHER_STDERR_FILE_H

#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

enum {
	STDERR_FILE_TAIL = 8 << 10,
	STDERR_FILE_LINK = 256,
	STDERR_FILE_WAIT_MS = 1000, /* for the file server */
};

/* Zeroed: none. */
struct stderr_file {
	int is_open, fd; /* with O_PATH: nothing waits for its server */
	uint64_t device, inode;
	/* when it was found */
	uint64_t size;
	int64_t written;
	char link[STDERR_FILE_LINK]; /* at the last look; "": none */
};

/* Looks which file that process has as its stderr, and keeps it if it is a
 * regular file; a process that has gone changes nothing. Touches the file only
 * if the process has another than at the last look: its file server may have
 * stopped meanwhile. */
void stderr_file_look(struct stderr_file *f, pid_t pid);
/* Whether two processes write to the same file. */
int stderr_file_same(const struct stderr_file *f, const struct stderr_file *g);
/* Appends its last bytes, from the beginning of a line on, without bytes that
 * were in it before that time. 0, or -ETIMEDOUT: the file server has not
 * answered; a thread keeps waiting for it. */
int stderr_file_put(const struct stderr_file *f, time_t since, struct buf *out);
void stderr_file_close(struct stderr_file *f);

#endif

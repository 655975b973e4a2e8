/* file_wait.h: reads files whose file server may have stopped. A thread reads;
 * the caller waits for a limited time, and leaves a thread behind that hangs.
 * libuv's threads would not do: the end of a program waits for them. */
#ifndef BASE_FILE_WAIT_H
#define BASE_FILE_WAIT_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"

enum {
	FILE_WAIT_MS = 1000,
	/* after a timeout: how long each read waits, and for how long this
	 * holds */
	FILE_WAIT_HASTY_MS = 20,
	FILE_WAIT_HASTE_LASTS_MS = 10000,
	FILE_WAIT_SERVER_MAX = 320
};

/* Like thread_detach, but set apart: the end of this process does not wait for
 * run, which may be in a call of the kernel that no signal ends, such as a
 * request that a FUSE server has taken. The thread shares the memory of this
 * process, but has a copy of the table of descriptors, in which only 0 to 2 are
 * open. It is killed when this process ends. */
MUST_CHECK int file_wait_detach_apart(void *(*run)(void *), void *arg);

/* Call it once folder exists and answers. If it is on a local file system, the
 * files below it that are on the same one are read without a thread, which
 * costs 0.2 ms. It replaces the folder of the last call; "": none. */
void file_wait_trust(const char *folder);

/* 1 if the folder of the last call is on a local file system. */
int file_wait_trusts(void);

/* Fills in st and, for a regular file, appends its last max bytes, or fewer, to
 * out. A FIFO is not waited for. 0, -errno, or -ETIMEDOUT after FILE_WAIT_MS,
 * or FILE_WAIT_HASTY_MS: its server does not answer. Many reads in a row thus
 * take little more than one. Called by one thread. */
MUST_CHECK int file_wait_read(const char *path, size_t max, struct stat *st,
			      struct buf *out);

/* The file system that path is on, without asking its server: "nfs4 at /data,
 * server:/export", into out; returns out. Symbolic links are not followed. */
char *file_wait_server(const char *path, char out[FILE_WAIT_SERVER_MAX]);

#endif

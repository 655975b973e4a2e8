/* file.h: all of some bytes, or an error: what write(2) and read(2) leave to
 * their callers. Blocks where it does not say otherwise. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>

#include "base/error.h"

/* 0 or -errno; how much was written before an error is not told. */
MUST_CHECK int file_write_all(int fd, const void *data, size_t size);

/* 0, or -EFBIG where `size` more bytes at the end of this regular file would
 * exceed the process's limit (ulimit -f): a write(2) there raises SIGXFSZ,
 * which ends a process that does not ignore it. */
int file_check_limit(int fd, size_t size);

/* 0, -errno, or -EIO where the file ends before size bytes. */
MUST_CHECK int file_read_all(int fd, void *to, size_t size);

/* A small file as text, at most size - 1 bytes, without ever waiting for more:
 * its length, or -errno and "". */
long file_read_text(const char *path, char *text, size_t size);

/* Makes dir and the folders above it where they are missing. 0 or -errno. */
MUST_CHECK int file_make_folders(const char *dir);

/* 0 if path can be created or replaced, which is tried with a file beside it;
 * else -errno. -EISDIR: path is a directory. -EINVAL: it is a device, a pipe or
 * a socket. */
MUST_CHECK int file_can_write(const char *path);

/* Each name in the directory dir, without "." and "..", and without any memory
 * but the stack's: for who has to clean up when there is none. 0 or -errno. */
MUST_CHECK int file_each_name(int dir, void (*found)(void *arg, int dir,
						     const char *name),
			      void *arg);

/* What was printed to stdout is written: 0, or -errno if any of it is lost. */
MUST_CHECK int file_flush_stdout(void);

#endif

/* file.h: complete reads and writes, and helpers for folders. All calls block
 * unless their comment says otherwise. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

struct iovec;
struct stat;

/* 0 or -errno; after an error part of the data may have been written. */
MUST_CHECK int file_write_all(int fd, const void *data, size_t size);

/* 0, or -EFBIG if appending `size` bytes to this regular file would exceed the
 * process's limit (ulimit -f): such a write raises SIGXFSZ, which kills a
 * process that does not ignore it. */
int file_check_limit(int fd, size_t size);

/* 0, -errno, or -EIO if the file ends before size bytes. */
MUST_CHECK int file_read_all(int fd, void *to, size_t size);

/* Reads a small file as text, at most size - 1 bytes. Never blocks. Returns its
 * length, or -errno and "". */
long file_read_text(const char *path, char *text, size_t size);

/* Closes what was written, with the rc so far; neither -1 nor NULL is closed.
 * Returns rc, or -errno if rc is 0 and a write fails only now. */
int file_close(int fd, int rc);
int file_close_stream(FILE *f, int rc);

/* Replaces the file at path, as a whole, by the n parts: writes a file beside
 * it, which only this user can read, and renames that. 0 or -errno. */
MUST_CHECK int file_replace(const char *path, const struct iovec *parts, int n);

/* Waits for a lock on PATH.lock, which is made if missing. Closing the result
 * releases the lock, as the death of its holder does. -1: there is none; a file
 * of another user is not waited for. */
int file_lock_beside(const char *path);

/* 1 if no user other than this one and root can write to the file. */
int file_is_trusted(const struct stat *st);

/* Makes dir and its missing parents. 0 or -errno. */
MUST_CHECK int file_make_folders(const char *dir);

/* 1 if path is on a file system in memory (tmpfs). */
int file_is_in_memory(const char *path);

/* 0 if path can be created or replaced, which is tried with a file beside it;
 * else -errno. -EISDIR: path is a directory. -EINVAL: it is a device, a pipe or
 * a socket. */
MUST_CHECK int file_can_write(const char *path);

/* Calls found for each name in the directory dir except "." and "..". Allocates
 * nothing, so that clean-up works when memory is exhausted. 0 or -errno. */
MUST_CHECK int file_each_name(int dir, void (*found)(void *arg, int dir,
						     const char *name),
			      void *arg);

/* Gives stdout, unless it is a terminal, a buffer that holds any help. Text
 * that stdio writes in parts can fail before file_flush_stdout, which then does
 * not know why. Call it before any output. */
void file_buffer_stdout(void);
/* Flushes stdout. 0, or -errno if any output was lost; -EIO if the reason is
 * not known. */
MUST_CHECK int file_flush_stdout(void);

#endif

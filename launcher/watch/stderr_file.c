/* stderr_file.c: /proc/PID/fd/2 is gone when the process is a zombie. */
#include "launcher/watch/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "launcher/watch/statx.h"

void stderr_file_close(struct stderr_file *f)
{
	if (f->is_open)
		close(f->fd);
	*f = (struct stderr_file){0};
}

/* What the kernel knows of the file, without asking its server. */
static int stderr_file_stat(int fd, struct statx *st)
{
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		  STATX_BASIC_STATS, st) < 0 || !S_ISREG(st->stx_mode))
		return -1;
	return 0;
}

static uint64_t stderr_file_device(const struct statx *st)
{
	return (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
}

void stderr_file_look(struct stderr_file *f, pid_t pid)
{
	char path[64], link[STDERR_FILE_LINK] = "";
	struct statx st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)pid);
	if (pid <= 0 || readlink(path, link, sizeof(link) - 1) < 0 ||
	    link[0] != '/' || strcmp(link, f->link) == 0)
		return;
	memcpy(f->link, link, sizeof(link));
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return;
	if (stderr_file_stat(fd, &st) < 0 ||
	    (f->is_open && f->device == stderr_file_device(&st) &&
	     f->inode == st.stx_ino)) {
		close(fd);
		return;
	}
	stderr_file_close(f);
	*f = (struct stderr_file){
		.is_open = 1, .fd = fd, .device = stderr_file_device(&st),
		.inode = st.stx_ino, .size = st.stx_size,
		.written = st.stx_mtime.tv_sec,
	};
	memcpy(f->link, link, sizeof(link));
}

int stderr_file_same(const struct stderr_file *f, const struct stderr_file *g)
{
	return f->is_open && g->is_open && f->device == g->device &&
	       f->inode == g->inode;
}

/* ---- reading it ---- */

/* One read: owned by its thread and by its caller; the last one to leave frees
 * it. */
struct stderr_read {
	atomic_int owners;
	int fd;		 /* the file's, with O_PATH */
	int64_t since;
	uint64_t own;	 /* older bytes at its beginning */
	int done[2];	 /* a pipe; the thread closes its end */
	ssize_t n;	 /* bytes of text */
	int is_cut;	 /* text begins within a line */
	char text[STDERR_FILE_TAIL];
};

static void stderr_read_leave(struct stderr_read *r)
{
	if (atomic_fetch_sub(&r->owners, 1) > 1)
		return;
	close(r->done[0]);
	close(r->fd);
	free(r);
}

static void stderr_read_tail(struct stderr_read *r, int fd)
{
	struct stat st;
	uint64_t size, at;

	if (fstat(fd, &st) < 0 || st.st_mtime < r->since)
		return;
	size = (uint64_t)st.st_size;
	at = size < r->own ? 0 : r->own; /* it was truncated */
	if (size - at > STDERR_FILE_TAIL) {
		at = size - STDERR_FILE_TAIL;
		r->is_cut = 1;
	}
	r->n = pread(fd, r->text, sizeof(r->text), (off_t)at);
}

static void *stderr_read_run(void *arg)
{
	struct stderr_read *r = arg;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0) {
		stderr_read_tail(r, fd);
		close(fd);
	}
	close(r->done[1]);
	stderr_read_leave(r);
	return NULL;
}

/* NULL: it cannot be read. */
static struct stderr_read *stderr_read_start(const struct stderr_file *f,
					     time_t since)
{
	struct stderr_read *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	atomic_init(&r->owners, 2);
	r->since = since;
	r->own = f->written < since ? f->size : 0;
	r->fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	if (r->fd < 0 || pipe2(r->done, O_CLOEXEC) < 0) {
		if (r->fd >= 0)
			close(r->fd);
		free(r);
		return NULL;
	}
	if (thread_detach(stderr_read_run, r, THREAD_STACK_SMALL) < 0) {
		close(r->done[1]);
		atomic_init(&r->owners, 1);
		stderr_read_leave(r);
		return NULL;
	}
	return r;
}

/* Until the thread has closed its end. */
static int stderr_read_await(const struct stderr_read *r)
{
	uint64_t end = clock_ms() + STDERR_FILE_WAIT_MS, now;
	struct pollfd p = {.fd = r->done[0], .events = POLLIN};

	while ((now = clock_ms()) < end) {
		p.revents = 0;
		if (poll(&p, 1, (int)(end - now)) > 0)
			return 0;
	}
	return -ETIMEDOUT;
}

int stderr_file_put(const struct stderr_file *f, time_t since, struct buf *out)
{
	struct stderr_read *r = f->is_open ? stderr_read_start(f, since) : NULL;
	const char *from;
	int rc;

	if (!r)
		return 0;
	rc = stderr_read_await(r);
	if (rc == 0 && r->n > 0) {
		from = r->is_cut ? memchr(r->text, '\n', (size_t)r->n)
				 : r->text;
		if (from)
			buf_put(out, from, (size_t)(r->text + r->n - from));
	}
	stderr_read_leave(r);
	return rc;
}

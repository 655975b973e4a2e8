/* stderr_file.c: /proc/PID/fd/2 is gone when the process is a zombie. */
#include "launcher/watch/stderr_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void stderr_file_close(struct stderr_file *f)
{
	if (f->is_open)
		close(f->fd);
	*f = (struct stderr_file){0};
}

void stderr_file_look(struct stderr_file *f, pid_t pid)
{
	char path[64], link[STDERR_FILE_LINK] = "";
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)pid);
	if (pid <= 0 || readlink(path, link, sizeof(link) - 1) < 0 ||
	    link[0] != '/' || strcmp(link, f->link) == 0)
		return;
	memcpy(f->link, link, sizeof(link));
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (f->is_open && f->device == st.st_dev && f->inode == st.st_ino)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return;
	/* it may be another file by now */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return;
	}
	stderr_file_close(f);
	*f = (struct stderr_file){
		1, fd, st.st_dev, st.st_ino, st.st_size, st.st_mtime, ""};
	memcpy(f->link, link, sizeof(link));
}

int stderr_file_same(const struct stderr_file *f, const struct stderr_file *g)
{
	return f->is_open && g->is_open && f->device == g->device &&
	       f->inode == g->inode;
}

void stderr_file_put(const struct stderr_file *f, time_t since, struct buf *out)
{
	char text[STDERR_FILE_TAIL];
	const char *from = text;
	struct stat st;
	off_t at, own = f->written < since ? f->size : 0;
	ssize_t n;

	if (!f->is_open || fstat(f->fd, &st) < 0 || st.st_mtime < since)
		return;
	if (st.st_size < own) /* it was truncated */
		own = 0;
	at = own;
	if (st.st_size - own > STDERR_FILE_TAIL)
		at = st.st_size - STDERR_FILE_TAIL;
	n = pread(f->fd, text, sizeof(text), at);
	if (n > 0 && at > own)
		from = memchr(text, '\n', (size_t)n);
	if (n > 0 && from)
		buf_put(out, from, (size_t)(text + n - from));
}

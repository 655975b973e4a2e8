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
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/2", (int)pid);
	if (pid <= 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
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
	*f = (struct stderr_file){1, fd, st.st_dev, st.st_ino};
}

void stderr_file_put(const struct stderr_file *f, time_t since, struct buf *out)
{
	char text[STDERR_FILE_TAIL];
	const char *from = text;
	struct stat st;
	ssize_t n;
	off_t at;

	if (!f->is_open || fstat(f->fd, &st) < 0 || st.st_mtime < since)
		return;
	at = st.st_size > STDERR_FILE_TAIL ? st.st_size - STDERR_FILE_TAIL : 0;
	n = pread(f->fd, text, sizeof(text), at);
	if (n > 0 && at > 0)
		from = memchr(text, '\n', (size_t)n);
	if (n > 0 && from)
		buf_put(out, from, (size_t)(text + n - from));
}

/* file.c: the loops around write(2) and read(2), and around mkdir(2). */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

int file_write_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = write(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

int file_replace(const char *path, const struct iovec *parts, int n)
{
	char temp[PATH_MAX];
	size_t size = 0;
	int fd, rc;

	if (snprintf(temp, sizeof(temp), "%s.XXXXXX", path) >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		size += parts[i].iov_len;
	rc = file_check_limit(fd, size);
	for (int i = 0; i < n && rc == 0; i++)
		rc = file_write_all(fd, parts[i].iov_base, parts[i].iov_len);
	rc = file_close(fd, rc);
	if (rc == 0 && rename(temp, path) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temp);
	return rc;
}

int file_is_trusted(const struct stat *st)
{
	return (st->st_uid == geteuid() || st->st_uid == 0) &&
	       !(st->st_mode & 022);
}

int file_lock_beside(const char *path)
{
	char name[PATH_MAX];
	struct stat st;
	int fd;

	if (snprintf(name, sizeof(name), "%s.lock", path) >= PATH_MAX)
		return -1;
	fd = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0 || !file_is_trusted(&st))
		return file_close(fd, -1);
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return file_close(fd, -1);
	return fd;
}

int file_close(int fd, int rc)
{
	return fd >= 0 && close(fd) < 0 && rc == 0 ? -errno : rc;
}

int file_close_stream(FILE *f, int rc)
{
	return f && fclose(f) < 0 && rc == 0 ? -errno : rc;
}

int file_check_limit(int fd, size_t size)
{
	struct rlimit limit;
	struct stat st;

	if (getrlimit(RLIMIT_FSIZE, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY || fstat(fd, &st) ||
	    !S_ISREG(st.st_mode))
		return 0;
	return (rlim_t)st.st_size > limit.rlim_cur ||
			       size > limit.rlim_cur - (rlim_t)st.st_size
		       ? -EFBIG
		       : 0;
}

int file_read_all(int fd, void *to, size_t size)
{
	char *p = to;

	while (size) {
		ssize_t n = read(fd, p, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		size -= (size_t)n;
	}
	return 0;
}

long file_read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;
	ssize_t n = fd < 0 ? -1 : 1;
	int error = errno;

	while (n > 0 && len < size - 1) {
		n = read(fd, text + len, size - 1 - len);
		if (n < 0)
			error = errno;
		else
			len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : len] = '\0';
	return n < 0 ? -error : (long)len;
}

int file_make_folders(const char *dir)
{
	char path[4096];
	size_t len = strlen(dir);
	struct stat st;

	if (len == 0 || len >= sizeof(path))
		return len ? -ENAMETOOLONG : -ENOENT;
	memcpy(path, dir, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i])
			continue;
		path[i] = 0;
		if (mkdir(path, 0777) < 0 && errno != EEXIST) {
			int err = errno;

			/* mkdir may fail with EROFS or EACCES on a folder that
			 * exists */
			if (stat(path, &st) < 0)
				return -err;
		}
		path[i] = i < len ? '/' : 0;
	}
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int file_each_name(int dir, void (*found)(void *arg, int dir, const char *name),
		   void *arg)
{
	union {
		struct dirent64 first; /* for its alignment */
		char bytes[4096];
	} b;
	long n;

	while ((n = syscall(SYS_getdents64, dir, b.bytes, sizeof(b))) > 0) {
		const struct dirent64 *entry;

		for (long at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(b.bytes + at);
			if (strcmp(entry->d_name, ".") != 0 &&
			    strcmp(entry->d_name, "..") != 0)
				found(arg, dir, entry->d_name);
		}
	}
	return n < 0 ? -errno : 0;
}

void file_buffer_stdout(void)
{
	static char buffer[64 << 10];

	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
}

int file_flush_stdout(void)
{
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	return errno ? -errno : -EIO;
}

int file_can_write(const char *path)
{
	char probe[4096];
	struct stat st;
	int fd, n;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return -EINVAL;
	n = snprintf(probe, sizeof(probe), "%s.probe.%ld", path,
		     (long)getpid());
	if (n >= (int)sizeof(probe))
		return -ENAMETOOLONG;
	fd = open(probe, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	unlink(probe);
	return 0;
}

int file_is_in_memory(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

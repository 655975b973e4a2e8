/* path.c: making folders, and trying whether a file can be made in one. */
#include "trainers/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 4096 };

int path_make_folders(const char *dir)
{
	char path[PATH_MAX_BYTES];
	size_t len = strlen(dir);
	struct stat st;

	if (len == 0 || len >= sizeof path)
		return len ? -ENAMETOOLONG : -ENOENT;
	memcpy(path, dir, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i])
			continue;
		path[i] = 0;
		if (mkdir(path, 0777) < 0 && errno != EEXIST) {
			int err = errno;

			/* read-only above a folder that is there is fine */
			if (stat(path, &st) < 0)
				return -err;
		}
		path[i] = i < len ? '/' : 0;
	}
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int path_can_write(const char *path)
{
	char probe[PATH_MAX_BYTES];
	struct stat st;
	int fd, n;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return -EISDIR;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return -EINVAL;
	n = snprintf(probe, sizeof probe, "%s.probe.%ld", path, (long)getpid());
	if (n >= (int)sizeof probe)
		return -ENAMETOOLONG;
	fd = open(probe, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	unlink(probe);
	return 0;
}

/* path.c: trying whether a file can be made in a folder. */
#include "trainers/train/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_MAX_BYTES = 4096 };

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

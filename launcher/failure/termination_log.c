/* termination_log.c: writes that file, and never another. */
#include "launcher/failure/termination_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

enum { LINE_MAX_BYTES = 4000 }; /* Kubernetes reads 4096 */

static int termination_log_put(const char *path, struct slice line)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				    O_CLOEXEC);
	struct stat st;
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (ftruncate(fd, 0) < 0)
		rc = -errno;
	if (rc == 0)
		rc = file_write_all(fd, line.data, line.len);
	if (rc == 0)
		rc = file_write_all(fd, "\n", 1);
	close(fd);
	return rc;
}

void termination_log_write(struct slice text)
{
	const char *chosen = getenv("DDP_TERMINATION_LOG");
	const char *path = chosen && *chosen ? chosen : "/dev/termination-log";
	struct slice line = slice_next_line(&text);
	int rc;

	if (!line.len || getenv("DDP_AGENT_ID"))
		return;
	if (line.len > LINE_MAX_BYTES)
		line.len = LINE_MAX_BYTES;
	rc = termination_log_put(path, line);
	if (rc < 0 && path == chosen)
		log_warn("cannot write the failure to DDP_TERMINATION_LOG, "
			 "'%s': %s", path,
			 rc == -EINVAL ? "it is not a regular file"
				       : strerror(-rc));
}

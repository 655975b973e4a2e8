/* job_key.c: a process's environment, as it began with it. */
#include "launcher/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

enum { ENVIRONMENT_MAX = 16 << 20, PIECE = 64 << 10 };

static int read_environment(struct buf *b, pid_t pid)
{
	char path[64], *to;
	ssize_t n = 1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (n > 0 && (to = buf_reserve(b, PIECE))) {
		n = read(fd, to, PIECE);
		b->len += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	buf_put_u8(b, 0);
	return b->failed;
}

/* Its value, or NULL. */
static const char *find(const struct buf *b, const char *name)
{
	size_t len = strlen(name), at = 0;

	while (at < b->len) {
		const char *v = b->data + at;

		if (strncmp(v, name, len) == 0 && v[len] == '=')
			return v + len + 1;
		at += strlen(v) + 1;
	}
	return NULL;
}

int job_key_of(struct auth *a, pid_t pid)
{
	struct buf b = BUF_INIT(ENVIRONMENT_MAX);
	int rc = read_environment(&b, pid);
	const char *key;

	if (rc == 0 && !find(&b, "DDP_RDZV_ENDPOINT"))
		rc = -ENOENT;
	if (rc == 0) {
		key = find(&b, "DDP_JOB_KEY");
		if (!key)
			auth_none(a);
		else
			rc = auth_of_key(a, key, NULL);
	}
	if (b.data)
		proof_wipe(b.data, b.len);
	buf_release(&b);
	return rc;
}

/* probe_folder.c: whether workers can write into a folder, how much space it
 * has, and how fast it is. Leaves nothing there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "worker-sdk/check/probe.h"

#define MIB ((uint64_t)1 << 20)

enum {
	BLOCK = 1 << 20,
	SPEED_BLOCKS = 64,
	SPEED_MS = 3000, /* for writing, at most */
	PATH_SIZE = 4096,
	SMALL = 4096,
	SLOW_SYNC_MS = 500,
};

/* A file that has no name any more; -errno. */
static int folder_open(const char *folder)
{
	char path[PATH_SIZE];
	int fd;

	if (snprintf(path, sizeof(path), "%s/.ddprun-check.XXXXXX", folder) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static void folder_measure_sync(struct finding *f, int fd, const char *folder)
{
	char block[SMALL] = "";
	uint64_t start = clock_ns();
	int rc = file_write_all(fd, block, sizeof(block));
	double ms;

	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	ms = (double)(clock_ns() - start) / 1e6;
	if (rc < 0)
		finding_mark(f, FINDING_FAILURE, "%.120s: cannot write there: "
			     "%s", folder, err_name(rc));
	else if (ms > SLOW_SYNC_MS)
		finding_mark(f, FINDING_WARNING, "%.120s: 4 KiB took %.0f ms "
			     "to reach the disk: is it overloaded?", folder,
			     ms);
}

static void folder_check_room(struct finding *f, const char *folder)
{
	char text[PROBE_BYTES_MAX];
	struct statvfs s;
	uint64_t left;

	if (statvfs(folder, &s) < 0)
		return;
	left = (uint64_t)s.f_bavail * s.f_frsize;
	finding_set_value(f, (double)left);
	snprintf(f->text, sizeof(f->text), "%s free",
		 probe_bytes_text(left, text));
	if (left < 64 * MIB)
		finding_mark(f, FINDING_FAILURE, "%.120s has only %s: make "
			     "room there, or choose another folder", folder,
			     f->text);
	else if (s.f_files && !s.f_favail)
		finding_mark(f, FINDING_FAILURE, "%.120s has no inode left: "
			     "remove files there, or choose another folder",
			     folder);
	else if (s.f_bavail < s.f_blocks / 50)
		finding_mark(f, FINDING_WARNING, "%.120s is nearly full: %s",
			     folder, f->text);
}

void probe_folder(struct findings *out, const struct probe_call *c)
{
	char name[FINDING_NAME_MAX];
	struct finding *f;
	int fd;

	snprintf(name, sizeof(name), "folder %.60s", c->folder);
	f = finding_add(out, name, "writable");
	fd = folder_open(c->folder);
	if (fd < 0) {
		snprintf(f->text, sizeof(f->text), "not writable");
		finding_mark(f, FINDING_FAILURE, "%.120s: cannot create a file "
			     "there: %s", c->folder, err_name(fd));
		return;
	}
	folder_check_room(f, c->folder);
	folder_measure_sync(f, fd, c->folder);
	close(fd);
}

/* Megabytes per second of writing and syncing a file; -errno. */
static double folder_write_speed(int fd, const char *block, uint64_t *bytes)
{
	uint64_t start = clock_ns();
	int rc = 0;

	*bytes = 0;
	for (int i = 0; i < SPEED_BLOCKS && rc == 0 &&
			clock_ns() - start < SPEED_MS * (uint64_t)1000000;
	     i++) {
		rc = file_write_all(fd, block, BLOCK);
		*bytes += BLOCK;
	}
	if (rc == 0 && fdatasync(fd) < 0)
		rc = -errno;
	return rc < 0 ? rc
		      : (double)*bytes * 1e3 / (double)(clock_ns() - start);
}

/* Reads from the disk if the kernel can be made to forget the file. */
static double folder_read_speed(int fd, char *block, uint64_t bytes)
{
	uint64_t start, got = 0;
	ssize_t n = 1;

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	start = clock_ns();
	for (; got < bytes && n > 0; got += n > 0 ? (uint64_t)n : 0)
		n = pread(fd, block, BLOCK, (off_t)got);
	if (n < 0)
		return -errno;
	return (double)got * 1e3 / (double)(clock_ns() - start);
}

void probe_folder_speed(struct findings *out, const struct probe_call *c)
{
	static const char *const ways[] = {"write", "read"};
	char name[FINDING_NAME_MAX], *block = malloc(BLOCK);
	int fd = folder_open(c->folder);
	double speeds[2] = {0, 0};
	uint64_t bytes = 0;

	if (fd < 0 || !block)
		goto out; /* probe_folder says why */
	memset(block, 'x', BLOCK);
	speeds[0] = folder_write_speed(fd, block, &bytes);
	if (speeds[0] > 0)
		speeds[1] = folder_read_speed(fd, block, bytes);
	for (int i = 0; i < 2; i++) {
		struct finding *f;

		snprintf(name, sizeof(name), "folder %.52s, %s", c->folder,
			 ways[i]);
		f = finding_add(out, name, "%.0f MB/s", speeds[i]);
		finding_set_value(f, speeds[i]);
		if (speeds[i] < 0)
			finding_mark(f, FINDING_FAILURE, "%.100s: cannot %s "
				     "64 MiB there: %s", c->folder, ways[i],
				     err_name((int)speeds[i]));
	}
out:
	if (fd >= 0)
		close(fd);
	free(block);
}

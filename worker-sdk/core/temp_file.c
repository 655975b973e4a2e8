/* temp_file.c: see temp_file.h. */
#include "worker-sdk/core/temp_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/random.h"

enum {
	HEX = 8,
	TRIES_MAX = 16,
	SUFFIX = 5 + HEX + 1 + HEX /* .tmp.KERNEL.RANDOM */
};

/* An id that is the same for all processes whose file locks are kept by the
 * same kernel. */
static uint32_t temp_file_boot_id(void)
{
	char text[64];
	long n = file_read_text("/proc/sys/kernel/random/boot_id", text,
				sizeof(text));

	return n > 0 ? (uint32_t)crc32_z(0, (unsigned char *)text, (size_t)n)
		     : 0;
}

/* Takes the lock, and checks that the file still exists: before it was locked,
 * another writer may have removed it as abandoned. On a file system without
 * locks writers remove only old files, so a new one stays. */
static int temp_file_is_mine(const struct ddp__temp_file *t)
{
	struct stat mine, there;

	while (flock(t->fd, LOCK_EX) < 0)
		if (errno != EINTR)
			break;
	return fstat(t->fd, &mine) == 0 &&
	       fstatat(t->dir, t->name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_ino == mine.st_ino && there.st_dev == mine.st_dev;
}

static int temp_file_try_once(struct ddp__temp_file *t, const char *name)
{
	uint32_t random;

	if (random_bytes(&random, sizeof(random), NULL) < 0)
		return -EIO;
	if (snprintf(t->name, sizeof(t->name), "%s.tmp.%08x.%08x", name,
		     temp_file_boot_id(), random) >= (int)sizeof(t->name))
		return -ENAMETOOLONG;
	t->fd = openat(t->dir, t->name,
		       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		       0666);
	if (t->fd < 0)
		return -errno;
	if (temp_file_is_mine(t))
		return 0;
	close(t->fd);
	t->fd = -1;
	return -EEXIST;
}

int ddp__temp_file_make(struct ddp__temp_file *t, int dir, const char *name)
{
	int rc = -EEXIST;

	*t = (struct ddp__temp_file){.dir = dir, .fd = -1};
	for (int i = 0; i < TRIES_MAX && rc == -EEXIST; i++)
		rc = temp_file_try_once(t, name);
	return rc;
}

int ddp__temp_file_rename(struct ddp__temp_file *t, const char *name)
{
	struct stat st;
	int rc;

	if (renameat(t->dir, t->name, t->dir, name) == 0) {
		t->name[0] = '\0';
		return 0;
	}
	rc = -errno;
	if (rc == -ENOENT &&
	    fstatat(t->dir, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -ESTALE;
	return rc;
}

void ddp__temp_file_end(struct ddp__temp_file *t)
{
	if (t->fd >= 0 && t->name[0])
		unlinkat(t->dir, t->name, 0);
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

/* ---- files of other writers */

static int temp_file_is_hex(const char *text)
{
	return strspn(text, "0123456789abcdef") >= HEX;
}

/* The part of a temporary name of `name` from the kernel's number on; NULL:
 * found is not such a name. */
static const char *temp_file_suffix_of(const char *found, const char *name)
{
	size_t len = strlen(name);
	const char *at = found + len + 5;

	if (strlen(found) != len + SUFFIX || strncmp(found, name, len) ||
	    strncmp(found + len, ".tmp.", 5) || !temp_file_is_hex(at) ||
	    at[HEX] != '.' || !temp_file_is_hex(at + HEX + 1))
		return NULL;
	return at;
}

/* Measures age by the file system's clock, which has just stamped t's file as
 * well. */
static int temp_file_is_old(const struct ddp__temp_file *t, int fd)
{
	struct stat now, st;

	return fstat(t->fd, &now) == 0 && fstat(fd, &st) == 0 &&
	       now.st_mtime - st.st_mtime > DDP__ABANDONED_S;
}

/* Opens each file for writing, because NFS grants exclusive locks only then. */
static void temp_file_remove_abandoned(const struct ddp__temp_file *t,
				       const char *found, int same_kernel)
{
	int fd = openat(t->dir, found,
			O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int locked, in_use;

	if (fd < 0)
		return;
	locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
	in_use = !locked && errno == EWOULDBLOCK;
	/* neither in use nor locked: this file system has no locks */
	if (!in_use && ((locked && same_kernel) || temp_file_is_old(t, fd)))
		unlinkat(t->dir, found, 0);
	close(fd);
}

void ddp__temp_file_tidy(const struct ddp__temp_file *t, const char *name)
{
	int fd = openat(t->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const char *mine = temp_file_suffix_of(t->name, name), *at;
	struct dirent *ent;

	if (!d && fd >= 0)
		close(fd);
	while (d && mine && (ent = readdir(d))) {
		at = temp_file_suffix_of(ent->d_name, name);
		if (at && strcmp(at, mine))
			temp_file_remove_abandoned(t, ent->d_name,
						   !strncmp(at, mine, HEX));
	}
	if (d)
		closedir(d);
}

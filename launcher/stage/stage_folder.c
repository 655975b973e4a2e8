/* stage_folder.c: names, locks and removal. */
#include "launcher/stage/stage_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "launcher/output/logdir.h"

#define PART ".part-"

enum { ID_SIZE = 17, SUFFIX_BYTES = 6, MAKE_TRIES = 5 };

int stage_folder_open(const char *wanted, char *out, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int rc;

	if (wanted)
		snprintf(path, sizeof(path), "%s", wanted);
	else
		snprintf(path, sizeof(path), "%s/ddprun-stage-%u",
			 logdir_temporary(), (unsigned)geteuid());
	rc = wanted ? file_make_folders(path) : 0;
	if (rc == 0 && mkdir(path, 0700) < 0 && errno != EEXIST)
		rc = -errno;
	if (rc == 0 && (wanted ? stat(path, &st) : lstat(path, &st)) < 0)
		rc = -errno;
	if (rc == 0 && !S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc == 0 && !realpath(path, out))
		rc = -errno;
	if (rc < 0)
		return err_set(e, rc, "--stage: cannot use the folder '%s': "
			       "%s; choose another one: --stage PATH:FOLDER",
			       path, err_name(rc));
	if (st.st_uid != geteuid() || st.st_mode & 022)
		return err_set(e, -EPERM, "--stage: others can write to the "
			       "folder '%s'; choose one of your own: --stage "
			       "PATH:FOLDER", path);
	return 0;
}

int stage_folder_hold(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* a process that removes it renames it first */
	if (fd >= 0 && flock(fd, LOCK_SH) == 0 && access(dir, F_OK) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return err_set(e, -ENOENT, "--stage: the copy in '%s' was removed",
		       dir);
}

void stage_folder_boot(char out[STAGE_BOOT_SIZE])
{
	memset(out, 0, STAGE_BOOT_SIZE);
	file_read_text("/proc/sys/kernel/random/boot_id", out,
		       STAGE_BOOT_SIZE);
}

static const char *folder_last(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* ---- incomplete copies ---- */

struct folder_search {
	const char *name; /* what others begin with */
	const char *folder;
	char *out;
	int fd;
};

/* Locks the copy at path, unless it is in use or was renamed meanwhile. */
static int folder_lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, now;

	if (fd < 0)
		return -1;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
	    lstat(path, &now) == 0 && st.st_dev == now.st_dev &&
	    st.st_ino == now.st_ino)
		return fd;
	close(fd);
	return -1;
}

static void folder_try(void *arg, int dir, const char *name)
{
	struct folder_search *s = arg;
	size_t n = strlen(s->name);

	(void)dir;
	if (s->fd >= 0 || strncmp(name, s->name, n) != 0 ||
	    strncmp(name + n, PART, sizeof(PART) - 1) != 0 ||
	    snprintf(s->out, PATH_MAX, "%s/%s", s->folder, name) >= PATH_MAX)
		return;
	s->fd = folder_lock(s->out);
}

static void folder_each(const char *folder,
			void (*found)(void *arg, int dir, const char *name),
			void *arg)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (file_each_name(fd, found, arg) < 0)
		errno = 0; /* entries that were not found stay */
	close(fd);
}

int stage_folder_adopt(const char *folder, const char *complete, char *out)
{
	struct folder_search s = {folder_last(complete), folder, out, -1};

	folder_each(folder, folder_try, &s);
	return s.fd;
}

/* The path complete with a suffix that no other process chooses. */
static int folder_new_name(const char *complete, const char *suffix, char *out,
			   struct err *e)
{
	char hex[2 * SUFFIX_BYTES + 1];
	int rc = random_hex(hex, SUFFIX_BYTES, e);

	if (rc < 0)
		return rc;
	if (snprintf(out, PATH_MAX, "%s%s%s", complete, suffix, hex) >=
	    PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "--stage: the name '%s' is "
			       "too long", complete);
	return 0;
}

int stage_folder_make(const char *complete, char *out, struct err *e)
{
	int rc, fd;

	/* another process may clean up before the new one is locked */
	for (int i = 0; i < MAKE_TRIES; i++) {
		rc = folder_new_name(complete, PART, out, e);
		if (rc < 0)
			return rc;
		if (mkdir(out, 0700) < 0)
			return err_set(e, -errno, "--stage: cannot make the "
				       "folder '%s': %s; choose another place: "
				       "--stage PATH:FOLDER", out,
				       strerror(errno));
		fd = folder_lock(out);
		if (fd >= 0)
			return fd;
		rmdir(out);
	}
	return err_set(e, -EBUSY, "--stage: the file system of '%s' has no "
		       "locks (flock); choose another place: --stage "
		       "PATH:FOLDER", complete);
}

int stage_folder_rename(const char *part, char *complete)
{
	char other[PATH_MAX];
	int rc;

	if (rename(part, complete) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	rc = folder_new_name(complete, ".also-", other, NULL);
	if (rc < 0)
		return rc;
	memcpy(complete, other, PATH_MAX);
	return rename(part, complete) < 0 ? -errno : 0;
}

/* ---- removal ---- */

/* Nobody uses it: fd has the lock. */
static void folder_remove(const char *path, int fd)
{
	char gone[PATH_MAX];

	if (folder_new_name(path, ".gone-", gone, NULL) == 0 &&
	    rename(path, gone) == 0 && logdir_remove(gone) < 0)
		errno = 0; /* the next job tries again */
	close(fd);
}

void stage_folder_discard(const char *dir)
{
	char gone[PATH_MAX];
	int fd;

	if (folder_new_name(dir, ".gone-", gone, NULL) < 0 ||
	    rename(dir, gone) < 0)
		return;
	fd = folder_lock(gone);
	if (fd >= 0)
		folder_remove(gone, fd);
}

static void folder_clean_one(void *arg, int dir, const char *name)
{
	const struct folder_search *s = arg;
	char path[PATH_MAX];
	int fd;

	(void)dir;
	if (strncmp(name, s->name, ID_SIZE) != 0 || strcmp(name, s->name) == 0)
		return;
	if (snprintf(path, sizeof(path), "%s/%s", s->folder, name) >=
	    (int)sizeof(path))
		return;
	fd = folder_lock(path);
	if (fd >= 0)
		folder_remove(path, fd);
}

void stage_folder_clean(const char *folder, const char *dir)
{
	struct folder_search s = {folder_last(dir), folder, NULL, -1};

	folder_each(folder, folder_clean_one, &s);
}

/* stage_copy.c: opens, fills and finishes a copy. */
#include "launcher/stage/stage_helper_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sock.h"
#include "launcher/stage/stage_folder.h"

enum {
	READ_BYTES = 1 << 20,
	HOLE_MIN = 4096, /* zeroes that become a hole */
	RESERVE = 16 << 20, /* is kept free on the disk */
};

/* ---- names ---- */

static int copy_fail(const struct stage_copy *c, int rc, const char *what,
		     const char *path, struct err *e)
{
	const char *remedy = "";

	if (rc == -ENOSPC || rc == -EDQUOT)
		remedy = "; free space there, or choose another folder: "
			 "--stage PATH:FOLDER";
	return err_set(e, rc, "--stage: %s: cannot %s '%s%s%s': %s%s", c->host,
		       what, c->dir, *path ? "/" : "", path, err_name(rc),
		       remedy);
}

/* An entry's path below c->fd, in out[PATH_MAX]. */
static int copy_name(const struct stage_copy *c, const struct stage_entry *x,
		     char *out)
{
	int n = snprintf(out, PATH_MAX, "%s%s%s", c->list->name,
			 *x->path ? "/" : "", x->path);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

void stage_copy_path(const struct stage_copy *c, char *out)
{
	if (snprintf(out, PATH_MAX, "%s/%s", c->dir, c->list->name) >= PATH_MAX)
		*out = '\0';
}

static const struct stage_entry *copy_file(const struct stage_copy *c,
					   uint32_t i)
{
	return &c->list->all[c->list->files[i]];
}

int stage_copy_open_file(const struct stage_copy *c, uint32_t i)
{
	char name[PATH_MAX];
	int rc = copy_name(c, copy_file(c, i), name), fd;

	if (rc < 0)
		return rc;
	fd = openat(c->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- copies that exist already ---- */

static void copy_begin_file(struct stage_copy *c)
{
	c->at = 0;
	c->is_unsure = 0;
	crypto_generichash_init(&c->state, NULL, 0, STAGE_HASH_SIZE);
}

/* Adds a file's first bytes to the hash, at most size: how many, or -errno. */
static int64_t copy_hash_file(struct stage_copy *c, uint32_t i, uint64_t size)
{
	static unsigned char data[READ_BYTES];
	int fd = stage_copy_open_file(c, i);
	uint64_t at = 0;
	ssize_t n = 1;

	if (fd < 0)
		return fd;
	while (at < size && n > 0) {
		size_t part = size - at < sizeof(data) ? size - at
						       : sizeof(data);

		n = read(fd, data, part);
		if (n > 0)
			crypto_generichash_update(&c->state, data,
						  (unsigned long long)n);
		at += n > 0 ? (uint64_t)n : 0;
	}
	close(fd);
	return n < 0 ? -EIO : (int64_t)at;
}

/* The file has the hash that c->hash has for it. */
static int copy_is_whole(struct stage_copy *c, uint32_t i)
{
	unsigned char hash[STAGE_HASH_SIZE];
	uint64_t size = copy_file(c, i)->size;

	copy_begin_file(c);
	if (copy_hash_file(c, i, size) != (int64_t)size)
		return 0;
	crypto_generichash_final(&c->state, hash, sizeof(hash));
	return memcmp(hash, c->hash[i], sizeof(hash)) == 0;
}

static int copy_read_hashes(struct stage_copy *c)
{
	struct stat st;
	uint64_t n;

	c->hashes = openat(c->fd, "hashes",
			   O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC,
			   0600);
	if (c->hashes < 0 || fstat(c->hashes, &st) < 0)
		return -errno;
	n = (uint64_t)st.st_size / STAGE_HASH_SIZE;
	if (n > c->list->nfiles)
		n = 0;
	c->nfiles = (uint32_t)n;
	return n ? file_read_all(c->hashes, c->hash, n * STAGE_HASH_SIZE) : 0;
}

/* The list and the boot under which the copy was written, which may have been
 * cut off before all of it was on the disk. */
static int copy_has_list(const struct stage_copy *c, int *is_this_boot)
{
	const struct buf *text = &c->list->text;
	char boot[STAGE_BOOT_SIZE], was[STAGE_BOOT_SIZE] = "", *list;
	int fd = openat(c->fd, "list", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int is_same = 0;
	struct stat st;

	if (fd < 0)
		return 0;
	list = malloc(text->len);
	if (list && fstat(fd, &st) == 0 &&
	    (uint64_t)st.st_size == text->len + sizeof(boot) &&
	    file_read_all(fd, list, text->len) == 0 &&
	    file_read_all(fd, was, sizeof(was)) == 0)
		is_same = memcmp(list, text->data, text->len) == 0;
	free(list);
	close(fd);
	stage_folder_boot(boot);
	*is_this_boot = memcmp(boot, was, sizeof(boot)) == 0;
	return is_same;
}

static int copy_write_list(struct stage_copy *c, struct err *e)
{
	const struct buf *text = &c->list->text;
	char boot[STAGE_BOOT_SIZE];
	int fd, rc;

	stage_folder_boot(boot);
	fd = openat(c->fd, "list",
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	rc = fd < 0 ? -errno : file_write_all(fd, text->data, text->len);
	if (rc == 0)
		rc = file_write_all(fd, boot, sizeof(boot));
	if (fd >= 0)
		rc = file_close(fd, rc);
	return rc < 0 ? copy_fail(c, rc, "write", "list", e) : 0;
}

/* All files, links and folders are as the list says; contents are not read. */
static int copy_looks_whole(const struct stage_copy *c)
{
	char name[PATH_MAX];
	struct stat st;

	for (uint32_t i = 0; i < c->list->n; i++) {
		const struct stage_entry *x = &c->list->all[i];
		const struct stage_entry *of =
			x->kind == STAGE_LINK ? &c->list->all[x->link] : x;

		if (copy_name(c, x, name) < 0 ||
		    fstatat(c->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		if (x->kind == STAGE_FOLDER && !S_ISDIR(st.st_mode))
			return 0;
		if (x->kind == STAGE_SYMLINK && !S_ISLNK(st.st_mode))
			return 0;
		if (of->kind == STAGE_FILE &&
		    (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != of->size ||
		     (int64_t)(st.st_mtim.tv_sec * 1000000000 +
			       st.st_mtim.tv_nsec) != of->mtime_ns))
			return 0;
	}
	return 1;
}

/* The complete copy in c->dir, if there is one. */
static int copy_open_complete(struct stage_copy *c)
{
	int is_this_boot, is_whole;

	c->fd = open(c->dir,
		     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->fd < 0)
		return 0;
	flock(c->fd, LOCK_SH);
	is_whole = copy_has_list(c, &is_this_boot) &&
		   copy_read_hashes(c) == 0 &&
		   c->nfiles == c->list->nfiles && copy_looks_whole(c);
	for (uint32_t i = 0; is_whole && !is_this_boot && i < c->nfiles; i++)
		is_whole = copy_is_whole(c, i);
	if (is_whole && (is_this_boot || copy_write_list(c, NULL) == 0)) {
		c->is_complete = c->was_there = 1;
		return 1;
	}
	if (c->hashes >= 0)
		close(c->hashes);
	close(c->fd);
	c->fd = c->hashes = -1;
	c->nfiles = 0;
	stage_folder_discard(c->dir);
	return 0;
}

/* ---- an incomplete copy ---- */

/* Finds how much of it is there. Nothing vouches for the beginning of a file
 * that was written before the host crashed. */
static int copy_resume(struct stage_copy *c, int is_this_boot)
{
	int rc = copy_read_hashes(c);
	uint32_t whole = 0;
	struct stat st;
	int64_t n;
	int fd;

	if (rc < 0)
		return rc;
	while (whole < c->nfiles && copy_is_whole(c, whole))
		whole++;
	c->nfiles = whole;
	if (ftruncate(c->hashes, (off_t)whole * STAGE_HASH_SIZE) < 0)
		return -errno;
	copy_begin_file(c);
	if (whole == c->list->nfiles || !is_this_boot)
		return 0;
	fd = stage_copy_open_file(c, whole);
	if (fd < 0)
		return 0;
	rc = fstat(fd, &st);
	close(fd);
	if (rc < 0 || (uint64_t)st.st_size > copy_file(c, whole)->size)
		return 0;
	n = copy_hash_file(c, whole, (uint64_t)st.st_size);
	if (n != st.st_size)
		copy_begin_file(c);
	c->is_unsure = n == st.st_size && n;
	c->at = c->is_unsure ? (uint64_t)n : 0;
	return 0;
}

static int copy_make_folders(struct stage_copy *c, struct err *e)
{
	char name[PATH_MAX];

	for (uint32_t i = 0; i < c->list->n; i++) {
		const struct stage_entry *x = &c->list->all[i];
		int rc = copy_name(c, x, name);

		if (rc == 0 && x->kind == STAGE_FOLDER &&
		    mkdirat(c->fd, name, 0700) < 0 && errno != EEXIST)
			rc = -errno;
		if (rc < 0)
			return copy_fail(c, rc, "make", x->path, e);
	}
	return 0;
}

static int copy_check_room(const struct stage_copy *c, struct err *e)
{
	struct statvfs fs;
	uint64_t need = c->list->bytes - c->at + RESERVE, have;

	for (uint32_t i = 0; i < c->nfiles; i++)
		need -= copy_file(c, i)->size;
	if (fstatvfs(c->fd, &fs) < 0)
		return 0;
	have = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (have >= need)
		return 0;
	return err_set(e, -ENOSPC, "--stage: %s: '%s' has %llu MiB free, and "
		       "the copy needs %llu MiB; free space there, or choose "
		       "another folder: --stage PATH:FOLDER", c->host,
		       c->folder, (unsigned long long)(have >> 20),
		       (unsigned long long)(need >> 20));
}

static int copy_open_part(struct stage_copy *c, struct err *e)
{
	char complete[PATH_MAX];
	int is_this_boot = 1, rc = 0;

	memcpy(complete, c->dir, sizeof(complete));
	c->fd = stage_folder_adopt(c->folder, complete, c->dir);
	if (c->fd < 0)
		c->fd = stage_folder_make(complete, c->dir, e);
	if (c->fd < 0)
		return c->fd;
	if (!copy_has_list(c, &is_this_boot))
		rc = copy_write_list(c, e);
	if (rc == 0)
		rc = copy_make_folders(c, e);
	if (rc == 0) {
		rc = copy_resume(c, is_this_boot);
		if (rc < 0)
			rc = copy_fail(c, rc, "continue", "", e);
	}
	return rc == 0 ? copy_check_room(c, e) : rc;
}

static void stage_copy_close(struct stage_copy *c)
{
	if (c->file >= 0)
		close(c->file);
	if (c->hashes >= 0)
		close(c->hashes);
	if (c->fd >= 0)
		close(c->fd);
	free(c->hash);
	c->hash = NULL;
	c->file = c->hashes = c->fd = -1;
}

int stage_copy_open(struct stage_copy *c, const char *folder,
		    const struct stage_list *list, struct err *e)
{
	char id[17];
	int rc = 0;

	*c = (struct stage_copy){.list = list, .fd = -1, .hashes = -1,
				 .file = -1};
	sock_host_name(c->host);
	stage_list_id(list->source, id);
	snprintf(c->folder, sizeof(c->folder), "%s", folder);
	if (snprintf(c->dir, sizeof(c->dir), "%s/%s-%s", folder, id,
		     list->key) >= (int)sizeof(c->dir) - 32)
		return copy_fail(c, -ENAMETOOLONG, "open", "", e);
	c->hash = calloc(list->nfiles + 1, sizeof(*c->hash));
	if (!c->hash)
		return err_no_memory(e, "--stage");
	if (!copy_open_complete(c))
		rc = copy_open_part(c, e);
	if (rc < 0)
		stage_copy_close(c);
	return rc;
}

int stage_copy_read_list(const char *dir, struct buf *text, struct err *e)
{
	char path[PATH_MAX], *to;
	struct stat st;
	int fd, rc = 0;

	buf_init(text, STAGE_LIST_MAX);
	snprintf(path, sizeof(path), "%s/list", dir);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		rc = -errno;
	else if (st.st_size < STAGE_BOOT_SIZE)
		rc = ERR_DATA;
	if (rc == 0) {
		size_t n = (size_t)st.st_size - STAGE_BOOT_SIZE;

		to = buf_reserve(text, n);
		rc = to ? file_read_all(fd, to, n) : text->failed;
		text->len = n;
	}
	if (fd >= 0)
		close(fd);
	return rc < 0 ? err_set(e, rc, "--stage: cannot read '%s': %s", path,
				err_name(rc)) : 0;
}

/* ---- filling it ---- */

static int copy_open_next(struct stage_copy *c, struct err *e)
{
	const struct stage_entry *x = copy_file(c, c->nfiles);
	char name[PATH_MAX];
	int rc = copy_name(c, x, name);

	if (c->file >= 0)
		return 0;
	if (rc == 0) {
		c->file = openat(c->fd, name,
				 O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
				 0600);
		if (c->file < 0 || ftruncate(c->file, (off_t)c->at) < 0)
			rc = -errno;
	}
	return rc < 0 ? copy_fail(c, rc, "write", x->path, e) : 0;
}

static int copy_is_hole(const char *data, size_t n)
{
	return n >= HOLE_MIN && data[0] == 0 && memcmp(data, data + 1, n - 1) ==
	       0;
}

int stage_copy_write(struct stage_copy *c, const char *data, size_t n,
		     struct err *e)
{
	const struct stage_entry *x = copy_file(c, c->nfiles);
	int rc = copy_open_next(c, e);

	if (rc < 0)
		return rc;
	if (n > x->size - c->at)
		return err_set(e, ERR_PROTOCOL, "--stage: '%s' has more bytes "
			       "than the list says", x->path);
	if (copy_is_hole(data, n))
		rc = ftruncate(c->file, (off_t)(c->at + n)) < 0 ? -errno : 0;
	else if (lseek(c->file, (off_t)c->at, SEEK_SET) < 0)
		rc = -errno;
	else
		rc = file_write_all(c->file, data, n);
	if (rc < 0)
		return copy_fail(c, rc, "write", x->path, e);
	if (c->makes_hashes)
		crypto_generichash_update(&c->state,
					  (const unsigned char *)data, n);
	c->at += n;
	return 0;
}

int stage_copy_end_file(struct stage_copy *c, const unsigned char *hash,
			struct err *e)
{
	const struct stage_entry *x = copy_file(c, c->nfiles);
	unsigned char *own = c->hash[c->nfiles];
	char name[PATH_MAX];
	int rc = copy_open_next(c, e), differs;

	if (rc < 0)
		return rc;
	rc = file_close(c->file, 0);
	c->file = -1;
	if (rc < 0)
		return copy_fail(c, rc, "write", x->path, e);
	if (c->makes_hashes)
		crypto_generichash_final(&c->state, own, STAGE_HASH_SIZE);
	else
		memcpy(own, hash, STAGE_HASH_SIZE);
	differs = !c->makes_hashes && c->is_unsure &&
		  !copy_is_whole(c, c->nfiles);
	copy_begin_file(c);
	if (differs) {
		/* the part that an earlier job left may be wrong */
		if (copy_name(c, x, name) == 0)
			unlinkat(c->fd, name, 0);
		return err_set(e, ERR_DATA, "--stage: %s: the copy of '%s' "
			       "differs from the source", c->host, x->path);
	}
	rc = file_write_all(c->hashes, own, STAGE_HASH_SIZE);
	if (rc < 0)
		return copy_fail(c, rc, "write", "hashes", e);
	c->nfiles++;
	return 0;
}

/* ---- finishing it ---- */

/* A link into the source becomes one into the copy. */
static int copy_make_symlink(const struct stage_copy *c,
			     const struct stage_entry *x, const char *name,
			     const char *complete)
{
	size_t n = strlen(c->list->source);
	char target[2 * PATH_MAX];

	if (strncmp(x->target, c->list->source, n) == 0 &&
	    (x->target[n] == '/' || x->target[n] == '\0'))
		snprintf(target, sizeof(target), "%s/%s%s", complete,
			 c->list->name, x->target + n);
	else
		snprintf(target, sizeof(target), "%s", x->target);
	unlinkat(c->fd, name, 0);
	return symlinkat(target, c->fd, name) < 0 ? -errno : 0;
}

static int copy_make_link(const struct stage_copy *c,
			  const struct stage_entry *x, const char *name)
{
	char first[PATH_MAX];
	int rc = copy_name(c, &c->list->all[x->link], first);

	if (rc < 0)
		return rc;
	unlinkat(c->fd, name, 0);
	return linkat(c->fd, first, c->fd, name, 0) < 0 ? -errno : 0;
}

/* The owner can always read, so that other nodes can get it from here. */
static int copy_set_mode(const struct stage_copy *c,
			 const struct stage_entry *x, const char *name)
{
	const struct timespec time = {
		.tv_sec = x->mtime_ns / 1000000000,
		.tv_nsec = x->mtime_ns % 1000000000,
	};
	const struct timespec times[2] = {time, time};
	mode_t least = x->kind == STAGE_FOLDER ? 0700 : 0400;

	if (fchmodat(c->fd, name, x->mode | least, 0) < 0 ||
	    utimensat(c->fd, name, times, 0) < 0)
		return -errno;
	return 0;
}

/* Links come after all files, and folders' times after all that is in them. */
static int copy_finish_entries(const struct stage_copy *c, const char *complete,
			       struct err *e)
{
	char name[PATH_MAX];

	for (uint32_t i = 0; i < 2 * c->list->n; i++) {
		int is_second = i >= c->list->n;
		const struct stage_entry *x =
			&c->list->all[is_second ? 2 * c->list->n - 1 - i : i];
		int rc = copy_name(c, x, name);

		if (rc == 0 && !is_second && x->kind == STAGE_SYMLINK)
			rc = copy_make_symlink(c, x, name, complete);
		else if (rc == 0 && !is_second && x->kind == STAGE_LINK)
			rc = copy_make_link(c, x, name);
		else if (rc == 0 && x->kind == (is_second ? STAGE_FOLDER
							  : STAGE_FILE))
			rc = copy_set_mode(c, x, name);
		if (rc < 0)
			return copy_fail(c, rc, "finish", x->path, e);
	}
	return 0;
}

int stage_copy_finish(struct stage_copy *c, struct err *e)
{
	char complete[PATH_MAX];
	int rc = 0;

	memcpy(complete, c->dir, sizeof(complete));
	if (!c->is_complete) {
		*strstr(strrchr(complete, '/'), ".part-") = '\0';
		rc = copy_finish_entries(c, complete, e);
		if (rc == 0)
			rc = stage_folder_rename(c->dir, complete);
		if (rc < 0)
			return e->code ? rc : copy_fail(c, rc, "rename", "", e);
		memcpy(c->dir, complete, sizeof(c->dir));
		flock(c->fd, LOCK_SH);
		c->is_complete = 1;
	}
	stage_folder_clean(c->folder, c->dir);
	return 0;
}

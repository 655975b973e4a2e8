/* stage_list.c: scans a tree into bytes, and reads such bytes. */
#include "launcher/stage/stage_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	DEPTH_MAX = 512,
	SIZE_BITS = 56, /* a file's; all sizes together fit into 64 */
	/* offsets of the fields of an entry */
	AT_KIND = 0, AT_LINK = 5, AT_SIZE = 9, AT_PATH = 25,
	KEY_BYTES = (STAGE_KEY_SIZE - 1) / 2,
};

static const char head[] = "ddprun stage 1";

/* A file with several names: where its entry is. */
struct scan_name {
	dev_t dev;
	ino_t ino;
	uint32_t index;
	size_t at;
};

struct scan {
	struct stage_list *list;
	char path[PATH_MAX]; /* below the source */
	uint32_t n, skipped;
	struct scan_name *names;
	size_t nnames, room;
};

/* ---- scanning ---- */

static int scan_fail(const struct scan *s, int rc, const char *what,
		     struct err *e)
{
	const char *source = s->list->text.data + sizeof(head) + 4;

	return err_set(e, rc, "--stage: cannot %s '%s%s%s': %s", what, source,
		       *s->path ? "/" : "", s->path, err_name(rc));
}

/* With its NUL, so that readers need no copies. */
static void scan_put_text(struct buf *out, const char *text)
{
	buf_put_slice(out, SLICE(text, strlen(text) + 1));
}

static int scan_note_name(struct scan *s, const struct stat *st, size_t at,
			  struct err *e)
{
	if (s->nnames == s->room) {
		size_t room = s->room ? 2 * s->room : 256;
		void *more = realloc(s->names, room * sizeof(*s->names));

		if (!more)
			return err_no_memory(e, "--stage");
		s->names = more;
		s->room = room;
	}
	s->names[s->nnames++] =
		(struct scan_name){st->st_dev, st->st_ino, s->n, at};
	return 0;
}

static int scan_put(struct scan *s, enum stage_kind kind, const struct stat *st,
		    const char *target, struct err *e)
{
	struct buf *out = &s->list->text;
	size_t at = out->len;
	int rc = 0;

	buf_put_u8(out, (uint8_t)kind);
	buf_put_u32(out, kind == STAGE_SYMLINK ? 0 : st->st_mode & 0777);
	buf_put_u32(out, 0);
	buf_put_u64(out, kind == STAGE_FILE ? (uint64_t)st->st_size : 0);
	buf_put_u64(out, (uint64_t)st->st_mtim.tv_sec * 1000000000u +
				 (uint64_t)st->st_mtim.tv_nsec);
	scan_put_text(out, s->path);
	scan_put_text(out, target);
	if (out->failed)
		return err_set(e, -ENOBUFS, "--stage: the list of files does "
			       "not fit into %d MiB; stage an image of them "
			       "instead", STAGE_LIST_MAX >> 20);
	if (kind == STAGE_FILE && st->st_nlink > 1)
		rc = scan_note_name(s, st, at, e);
	s->n++;
	return rc;
}

static int scan_compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a folder, sorted; the caller frees them. */
static int scan_read_names(DIR *dir, char ***names, size_t *n)
{
	struct dirent *d;
	size_t room = 0;

	*names = NULL;
	*n = 0;
	while ((errno = 0, d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (*n == room) {
			void *more;

			room = room ? 2 * room : 64;
			more = realloc(*names, room * sizeof(**names));
			if (!more)
				return -ENOMEM;
			*names = more;
		}
		(*names)[*n] = strdup(d->d_name);
		if (!(*names)[*n])
			return -ENOMEM;
		++*n;
	}
	if (errno)
		return -errno;
	if (*n)
		qsort(*names, *n, sizeof(**names), scan_compare_texts);
	return 0;
}

static int scan_folder(struct scan *s, int fd, int depth, struct err *e);

/* What s->path names; name is the same in the folder dir. */
static int scan_entry(struct scan *s, int dir, const char *name, int depth,
		      struct err *e)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;
	int fd, rc;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return scan_fail(s, -errno, "look at", e);
	if (S_ISREG(st.st_mode))
		return scan_put(s, STAGE_FILE, &st, "", e);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		if (n < 0)
			return scan_fail(s, -errno, "read the link", e);
		target[n] = '\0';
		return scan_put(s, STAGE_SYMLINK, &st, target, e);
	}
	if (!S_ISDIR(st.st_mode)) {
		s->skipped++;
		return 0;
	}
	if (depth == DEPTH_MAX)
		return scan_fail(s, -ELOOP, "open", e);
	rc = scan_put(s, STAGE_FOLDER, &st, "", e);
	if (rc < 0)
		return rc;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return scan_fail(s, -errno, "open", e);
	return scan_folder(s, fd, depth + 1, e);
}

/* Takes fd. */
static int scan_folder(struct scan *s, int fd, int depth, struct err *e)
{
	size_t len = strlen(s->path), n = 0;
	DIR *dir = fdopendir(fd);
	char **names = NULL;
	int rc;

	if (!dir) {
		rc = scan_fail(s, -errno, "open", e);
		close(fd);
		return rc;
	}
	rc = scan_read_names(dir, &names, &n);
	if (rc < 0)
		rc = scan_fail(s, rc, "read", e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if ((size_t)snprintf(s->path + len, sizeof(s->path) - len,
				     "%s%s", len ? "/" : "", names[i]) >=
		    sizeof(s->path) - len)
			rc = scan_fail(s, -ENAMETOOLONG, "look at", e);
		else
			rc = scan_entry(s, dirfd(dir), names[i], depth, e);
		s->path[len] = '\0';
	}
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	closedir(dir);
	return rc;
}

static int scan_compare_names(const void *a, const void *b)
{
	const struct scan_name *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

static void scan_patch(char *to, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (char)(v >> 8 * i);
}

/* The second and further names of a file become links to its first. */
static void scan_join_names(struct scan *s)
{
	size_t first = 0;

	if (s->nnames)
		qsort(s->names, s->nnames, sizeof(*s->names),
		      scan_compare_names);
	for (size_t i = 1; i < s->nnames; i++) {
		char *entry = s->list->text.data + s->names[i].at;

		if (s->names[i].dev != s->names[first].dev ||
		    s->names[i].ino != s->names[first].ino) {
			first = i;
			continue;
		}
		scan_patch(entry + AT_KIND, STAGE_LINK, 1);
		scan_patch(entry + AT_LINK, s->names[first].index, 4);
		scan_patch(entry + AT_SIZE, 0, 8);
	}
}

int stage_list_scan(struct stage_list *l, const char *path, uint32_t *skipped,
		    struct err *e)
{
	struct scan s = {.list = l};
	size_t at;
	int rc;

	*l = (struct stage_list){.text = BUF_INIT(STAGE_LIST_MAX)};
	buf_put(&l->text, head, sizeof(head));
	scan_put_text(&l->text, path);
	at = l->text.len;
	buf_put_u32(&l->text, 0);
	rc = l->text.failed ? err_no_memory(e, "--stage")
			    : scan_entry(&s, AT_FDCWD, path, 0, e);
	if (rc == 0) {
		scan_join_names(&s);
		scan_patch(l->text.data + at, s.n, 4);
		rc = stage_list_read(l, e);
	}
	*skipped = s.skipped;
	free(s.names);
	if (rc < 0)
		stage_list_release(l);
	return rc;
}

/* ---- reading ---- */

static const char *list_text(struct reader *r)
{
	struct slice s = reader_slice(r);

	if (!s.len || memchr(s.data, '\0', s.len) != s.data + s.len - 1) {
		r->bad = 1;
		return "";
	}
	return s.data;
}

/* A relative path that stays below its folder. */
static int list_is_safe(const char *path)
{
	for (;;) {
		size_t n = strcspn(path, "/");

		if (n == 0 || (n == 1 && path[0] == '.') ||
		    (n == 2 && path[0] == '.' && path[1] == '.'))
			return 0;
		if (!path[n])
			return 1;
		path += n + 1;
	}
}

static int list_read_entry(struct stage_list *l, struct reader *r, uint32_t i)
{
	struct stage_entry *x = &l->all[i];

	x->kind = (enum stage_kind)reader_u8(r);
	x->mode = reader_u32(r);
	x->link = reader_u32(r);
	x->size = reader_u64(r);
	x->mtime_ns = (int64_t)reader_u64(r);
	x->path = list_text(r);
	x->target = list_text(r);
	if (r->bad || x->kind < STAGE_FOLDER || x->kind > STAGE_LINK ||
	    x->mode & ~0777u || x->size >> SIZE_BITS ||
	    (x->kind != STAGE_FILE && x->size) ||
	    (x->kind == STAGE_SYMLINK) != (*x->target != '\0'))
		return -1;
	if (i == 0)
		return *x->path || x->kind > STAGE_FILE ? -1 : 0;
	if (!list_is_safe(x->path) || l->all[0].kind != STAGE_FOLDER)
		return -1;
	if (x->kind == STAGE_LINK &&
	    (x->link >= i || l->all[x->link].kind != STAGE_FILE))
		return -1;
	return 0;
}

static int list_read_all(struct stage_list *l, struct reader *r)
{
	for (uint32_t i = 0; i < l->n; i++) {
		if (list_read_entry(l, r, i) < 0)
			return -1;
		if (l->all[i].kind != STAGE_FILE)
			continue;
		l->files[l->nfiles++] = i;
		l->bytes += l->all[i].size;
		if (l->bytes >> (SIZE_BITS + 6))
			return -1;
	}
	return reader_left(r) ? -1 : 0;
}

static void list_find_key(struct stage_list *l)
{
	unsigned char hash[KEY_BYTES];

	crypto_generichash(hash, sizeof(hash),
			   (const unsigned char *)l->text.data, l->text.len,
			   NULL, 0);
	sodium_bin2hex(l->key, sizeof(l->key), hash, sizeof(hash));
}

int stage_list_read(struct stage_list *l, struct err *e)
{
	struct reader r;
	const char *slash;

	if (l->text.len < sizeof(head) ||
	    memcmp(l->text.data, head, sizeof(head)) != 0)
		return err_set(e, ERR_PROTOCOL, "a list of staged files has "
			       "another format");
	reader_init(&r, SLICE(l->text.data + sizeof(head),
			      l->text.len - sizeof(head)));
	l->source = list_text(&r);
	slash = strrchr(l->source, '/');
	l->name = slash ? slash + 1 : "";
	l->n = reader_u32(&r);
	if (r.bad || !l->n || l->n > reader_left(&r) / AT_PATH ||
	    !list_is_safe(l->name) || strlen(l->name) >= STAGE_NAME_MAX ||
	    strchr(l->source, '\n'))
		return err_set(e, ERR_PROTOCOL, "the list of staged files of "
			       "'%.200s' is invalid", l->source);
	l->nfiles = 0;
	l->bytes = 0;
	l->all = calloc(l->n, sizeof(*l->all));
	l->files = calloc(l->n, sizeof(*l->files));
	if (!l->all || !l->files)
		return err_no_memory(e, "a list of %u staged files", l->n);
	if (list_read_all(l, &r) < 0)
		return err_set(e, ERR_PROTOCOL, "the list of staged files of "
			       "'%.200s' is damaged", l->source);
	list_find_key(l);
	return 0;
}

void stage_list_release(struct stage_list *l)
{
	free(l->all);
	free(l->files);
	l->all = NULL;
	l->files = NULL;
	buf_release(&l->text);
}

void stage_list_id(const char *source, char *out)
{
	unsigned char hash[crypto_generichash_BYTES_MIN];

	crypto_generichash(hash, sizeof(hash), (const unsigned char *)source,
			   strlen(source), NULL, 0);
	sodium_bin2hex(out, 17, hash, 8);
}

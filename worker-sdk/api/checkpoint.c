/* checkpoint.c: the checkpoint format: a header with a checksum that lists the
 * sections, then the sections, each with its checksum. Knows neither models nor
 * ranks. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/file.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/core/temp_file.h"
#include "worker-sdk/ddp.h"

/* The file, little-endian: 8 bytes magic, u32 version, u32 bytes of the header
 * that follow, u64 bytes of the whole file, str kind, u32 sections, then for
 * each section: str name, u64 size, u32 crc32, u32 crc32 of all before it; then
 * the sections' bytes, one section after the other. */
enum {
	VERSION = 1,
	FIXED_SIZE = 24,
	HEADER_MAX = 1 << 20,
	KIND_MAX = 255,
	NAME_MAX_LEN = 63,
	SECTIONS_MAX = 8192,
	LINKS_MAX = 40,
	CHUNK = 1 << 20
};

static const char magic[8] = {'D', 'D', 'P', 'C', 'K', 'P', 'T', '\n'};

static uint32_t checkpoint_crc(const void *data, size_t size)
{
	return (uint32_t)crc32_z(0, data, size);
}

static int checkpoint_check_arguments(const char *path, const char *kind,
				      const struct ddp_section *sec, int n,
				      struct err *e)
{
	if (!path || !path[0] || !kind || n < 0 || (n > 0 && !sec))
		return err_set(e, ERR_ARGUMENT,
			       "checkpoint: path, kind and sections must be "
			       "given");
	if (strlen(kind) > KIND_MAX || n > SECTIONS_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "checkpoint %s: at most %d bytes of kind and %d "
			       "sections",
			       path, KIND_MAX, SECTIONS_MAX);
	for (int i = 0; i < n; i++) {
		const char *name = sec[i].name;

		if (!name || !name[0] || strlen(name) > NAME_MAX_LEN ||
		    (!sec[i].data && sec[i].size))
			return err_set(e, ERR_ARGUMENT,
				       "checkpoint %s: section %d needs data "
				       "and a name of 1 to %d bytes",
				       path, i, NAME_MAX_LEN);
		for (int j = 0; j < i; j++)
			if (!strcmp(name, sec[j].name))
				return err_set(e, ERR_ARGUMENT,
					       "checkpoint %s: two sections "
					       "are named %s",
					       path, name);
	}
	return 0;
}

/* ---- saving */

static void checkpoint_put_header(struct buf *b, const char *kind,
				  const struct ddp_section *sec, int n)
{
	uint64_t total = 0;
	size_t length;

	for (int i = 0; i < n; i++)
		total += sec[i].size;
	buf_put(b, magic, sizeof(magic));
	buf_put_u32(b, VERSION);
	buf_put_u32(b, 0);
	buf_put_u64(b, 0);
	buf_put_slice(b, SLICE_STR(kind));
	buf_put_u32(b, (uint32_t)n);
	for (int i = 0; i < n; i++) {
		buf_put_slice(b, SLICE_STR(sec[i].name));
		buf_put_u64(b, sec[i].size);
		buf_put_u32(b, checkpoint_crc(sec[i].data, sec[i].size));
	}
	if (b->failed)
		return;
	/* the header's length is known only now */
	length = b->len - FIXED_SIZE + 4;
	total += FIXED_SIZE + length;
	for (int i = 0; i < 4; i++)
		b->data[12 + i] = (char)(length >> 8 * i);
	for (int i = 0; i < 8; i++)
		b->data[16 + i] = (char)(total >> 8 * i);
	buf_put_u32(b, checkpoint_crc(b->data, b->len));
}

/* The folder of path, and the name within it. The caller frees *folder. */
static const char *checkpoint_split_path(const char *path, char **folder)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		*folder = strdup(".");
	else
		*folder = strndup(path, slash == path ? 1
						      : (size_t)(slash - path));
	return slash ? slash + 1 : path;
}

/* True for the last part of "ck/", "ck/." and "..": no file can have that
 * name. */
static int checkpoint_is_directory_name(const char *name)
{
	return !name[0] || !strcmp(name, ".") || !strcmp(name, "..");
}

/* Follows links, so that a link to a file stays a link. The last link's target
 * need not exist yet. NULL and errno on failure; the caller frees the
 * result. */
static char *checkpoint_follow_links(const char *path)
{
	char target[PATH_MAX], *at = strdup(path), *folder, *next;

	for (int links = 0; at; links++) {
		ssize_t n = readlink(at, target, sizeof(target));

		if (n < 0) /* not a link, or the target does not exist */
			return at;
		if (n == (ssize_t)sizeof(target) || links == LINKS_MAX) {
			free(at);
			errno = links == LINKS_MAX ? ELOOP : ENAMETOOLONG;
			return NULL;
		}
		target[n] = '\0';
		checkpoint_split_path(at, &folder);
		free(at);
		if (!folder || asprintf(&next, "%s%s%s",
					target[0] == '/' ? "" : folder,
					target[0] == '/' ? "" : "/",
					target) < 0)
			next = NULL;
		free(folder);
		at = next;
	}
	errno = ENOMEM;
	return NULL;
}

/* Writes and syncs the temporary file; on failure *what names the step. */
static int checkpoint_write_file(int fd, const struct buf *header,
				 const struct ddp_section *sec, int n)
{
	size_t size = header->len;
	int rc;

	for (int i = 0; i < n; i++)
		size += sec[i].size;
	rc = file_check_limit(fd, size);
	if (!rc)
		rc = file_write_all(fd, header->data, header->len);
	for (int i = 0; i < n && !rc; i++)
		rc = file_write_all(fd, sec[i].data, sec[i].size);
	/* The data must be on the disk before the name points to it. */
	if (!rc && fsync(fd))
		rc = -errno;
	return rc;
}

static int checkpoint_save_failed(struct err *e, int rc, const char *path,
				  const char *folder)
{
	if (rc == -ENOENT || rc == -ENOTDIR)
		return err_set(e, rc,
			       "cannot write checkpoint %s: there is no folder "
			       "%s; create it first",
			       path, folder);
	if (rc == -ESTALE)
		return err_set(e, rc,
			       "cannot write checkpoint %s: another process "
			       "removed its temporary file; the existing file "
			       "is unchanged; save it again",
			       path);
	if (rc == -EISDIR)
		return err_set(e, rc,
			       "cannot write checkpoint %s: it names a folder; "
			       "name a file", path);
	if (rc == -EFBIG)
		return err_set(
			e, rc,
			"cannot write checkpoint %s: %s; the existing file is "
			"unchanged; raise the limit of file sizes (ulimit -f)",
			path, strerror(-rc));
	if (rc == -ENOSPC || rc == -EDQUOT)
		return err_set(e, rc,
			       "cannot write checkpoint %s: %s; the existing "
			       "file is unchanged; free some space",
			       path, strerror(-rc));
	if (rc == -EINVAL)
		return err_set(e, rc,
			       "cannot write checkpoint %s: it is a device, a "
			       "pipe or a socket; name a file", path);
	return err_set(e, rc,
		       "cannot write checkpoint %s: %s; the existing file is "
		       "unchanged",
		       path, strerror(-rc));
}

int ddp_checkpoint_save(const char *path, const char *kind,
			const struct ddp_section *sections, int n)
{
	struct err *e = ddp__last_error();
	struct buf header = BUF_INIT(HEADER_MAX);
	struct ddp__temp_file temp = {.fd = -1};
	char *folder = NULL, *file;
	const char *name = NULL;
	struct stat st;
	int dir = -1, is_saved = 0,
	    rc = checkpoint_check_arguments(path, kind, sections, n, e);

	if (rc)
		return rc;
	file = checkpoint_follow_links(path);
	if (!file)
		return checkpoint_save_failed(e, -errno, path, ".");
	name = checkpoint_split_path(file, &folder);
	checkpoint_put_header(&header, kind, sections, n);
	if (!folder || header.failed) {
		rc = -ENOMEM;
		goto out;
	}
	if (checkpoint_is_directory_name(name)) {
		rc = -EISDIR;
		goto out;
	}
	dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		rc = -errno;
		goto out;
	}
	rc = ddp__temp_file_make(&temp, dir, name);
	if (rc)
		goto out;
	ddp__temp_file_tidy(&temp, name);
	rc = checkpoint_write_file(temp.fd, &header, sections, n);
	/* do not replace /dev/null and the like, as root could */
	if (!rc && fstatat(dir, name, &st, 0) == 0 && !S_ISREG(st.st_mode) &&
	    !S_ISDIR(st.st_mode))
		rc = -EINVAL;
	if (!rc)
		rc = ddp__temp_file_rename(&temp, name);
	if (rc)
		goto out;
	is_saved = 1;
	/* EINVAL: this file system cannot sync a directory */
	if (fsync(dir) && errno != EINVAL)
		rc = err_set(e, -errno,
			     "checkpoint %s is written, but a power cut may "
			     "still undo it: syncing its folder failed: %s",
			     path, strerror(errno));
out:
	if (rc && !is_saved)
		checkpoint_save_failed(e, rc, path, folder ? folder : ".");
	ddp__temp_file_end(&temp);
	if (dir >= 0)
		close(dir);
	buf_release(&header);
	free(folder);
	free(file);
	return rc;
}

/* ---- loading */

struct file {
	const char *path;
	int fd;
	uint64_t size;
	struct buf header;
	struct err *e;
};

/* Reads exactly size bytes from offset at. */
static int checkpoint_read_at(struct file *f, void *to, size_t size,
			      uint64_t at)
{
	char *p = to;

	while (size) {
		ssize_t n = pread(f->fd, p, size < 1u << 30 ? size : 1u << 30,
				  (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(f->e, -errno,
				       "cannot read checkpoint %s: %s", f->path,
				       strerror(errno));
		if (n == 0)
			return err_set(f->e, ERR_DATA,
				       "checkpoint %s became shorter while it "
				       "was read", f->path);
		p += n;
		at += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

static int checkpoint_damaged(struct file *f, const char *where)
{
	return err_set(f->e, ERR_DATA,
		       "checkpoint %s is damaged: %s; use an older one",
		       f->path, where);
}

/* Reads and checks the header up to its checksum. */
static int checkpoint_read_header(struct file *f)
{
	unsigned long long whole;
	uint32_t version, length;
	struct reader r;
	char fixed[FIXED_SIZE];
	size_t start = f->size < FIXED_SIZE ? (size_t)f->size : FIXED_SIZE;
	char *p;
	int rc = checkpoint_read_at(f, fixed, start, 0);

	if (rc)
		return rc;
	if (start >= sizeof(magic) && memcmp(fixed, magic, sizeof(magic)))
		return err_set(f->e, ERR_DATA, "%s is not a libddp checkpoint",
			       f->path);
	if (start < FIXED_SIZE)
		return err_set(f->e, ERR_DATA,
			       "checkpoint %s is truncated: it has %llu bytes; "
			       "use an older one",
			       f->path, (unsigned long long)f->size);
	reader_init(&r, SLICE(fixed + sizeof(magic), FIXED_SIZE - 8));
	version = reader_u32(&r);
	length = reader_u32(&r);
	whole = reader_u64(&r);
	if (version > VERSION)
		return err_set(f->e, ERR_DATA,
			       "checkpoint %s has format %u, newer than this "
			       "libddp's %d; use a libddp at least as new "
			       "as the writer's",
			       f->path, version, VERSION);
	if (f->size < whole)
		return err_set(f->e, ERR_DATA,
			       "checkpoint %s is truncated: it has %llu of "
			       "%llu bytes; use an older one",
			       f->path, (unsigned long long)f->size, whole);
	if (version < 1 || length < 12 || length > HEADER_MAX ||
	    f->size > whole || FIXED_SIZE + length > whole)
		return checkpoint_damaged(f, "its header contradicts its size");
	p = buf_reserve(&f->header, FIXED_SIZE + length);
	if (!p)
		return err_no_memory(f->e, "checkpoint %s", f->path);
	rc = checkpoint_read_at(f, p, FIXED_SIZE + length, 0);
	f->header.len = FIXED_SIZE + length;
	reader_init(&r, SLICE(p + FIXED_SIZE + length - 4, 4));
	if (!rc && checkpoint_crc(p, FIXED_SIZE + length - 4) != reader_u32(&r))
		rc = checkpoint_damaged(f,
					"its header's checksum does not match");
	return rc;
}

/* A section's header entry, matched to the caller's section. */
struct entry {
	const struct ddp_section *section;
	uint64_t at;
	uint32_t crc;
};

static int checkpoint_match_entry(struct file *f, struct slice name,
				  uint64_t size, const struct ddp_section *sec,
				  int n, const struct ddp_section **out)
{
	for (int i = 0; i < n; i++) {
		if (strlen(sec[i].name) != name.len ||
		    memcmp(sec[i].name, name.data, name.len))
			continue;
		if (sec[i].size != size)
			return err_set(
				f->e, ERR_DATA,
				"checkpoint %s: section %s has %llu bytes, not "
				"%zu; it belongs to another model",
				f->path, sec[i].name, (unsigned long long)size,
				sec[i].size);
		*out = &sec[i];
		return 0;
	}
	return err_set(f->e, ERR_DATA,
		       "checkpoint %s has a section %.*s, which this program "
		       "does not know",
		       f->path, SLICE_FMT(name));
}

static int checkpoint_parse_header(struct file *f, const char *kind,
				   const struct ddp_section *sec, int n,
				   struct entry *entries)
{
	uint64_t at = f->header.len;
	struct slice its_kind;
	struct reader r;
	uint32_t count;

	reader_init(&r, SLICE(f->header.data + FIXED_SIZE,
			      f->header.len - FIXED_SIZE - 4));
	its_kind = reader_slice(&r);
	count = reader_u32(&r);
	if (!r.bad && (its_kind.len != strlen(kind) ||
		       memcmp(its_kind.data, kind, its_kind.len)))
		return err_set(f->e, ERR_DATA,
			       "checkpoint %s belongs to %.*s, not to %s",
			       f->path, SLICE_FMT(its_kind), kind);
	for (uint32_t i = 0; i < count && !r.bad; i++) {
		struct slice name = reader_slice(&r);
		uint64_t size = reader_u64(&r);
		uint32_t crc = reader_u32(&r);
		const struct ddp_section *s = NULL;
		int rc;

		if (r.bad)
			break;
		rc = checkpoint_match_entry(f, name, size, sec, n, &s);
		if (rc)
			return rc;
		entries[s - sec] = (struct entry){s, at, crc};
		at += size;
	}
	if (r.bad || reader_left(&r) || at != f->size)
		return checkpoint_damaged(f, "its header does not parse");
	for (int i = 0; i < n; i++)
		if (!entries[i].section)
			return err_set(f->e, ERR_DATA,
				       "checkpoint %s has no section %s",
				       f->path, sec[i].name);
	return 0;
}

/* Checks the whole file's checksums without touching the caller's data. */
static int checkpoint_verify(struct file *f, const struct entry *entry,
			     char *chunk)
{
	uint64_t left = entry->section->size, at = entry->at;
	uLong crc = 0;
	char text[128];

	while (left) {
		size_t n = left < CHUNK ? (size_t)left : CHUNK;
		int rc = checkpoint_read_at(f, chunk, n, at);

		if (rc)
			return rc;
		crc = crc32_z(crc, (const unsigned char *)chunk, n);
		at += n;
		left -= n;
	}
	if (crc == entry->crc)
		return 0;
	snprintf(text, sizeof(text),
		 "the checksum of section %s does not match",
		 entry->section->name);
	return checkpoint_damaged(f, text);
}

static int checkpoint_open_file(struct file *f)
{
	struct stat st;

	f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (f->fd < 0 && errno == ENOENT)
		return err_set(f->e, -ENOENT, "there is no checkpoint %s",
			       f->path);
	if (f->fd < 0 || fstat(f->fd, &st))
		return err_set(f->e, -errno, "cannot open checkpoint %s: %s",
			       f->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(f->e, ERR_DATA,
			       "checkpoint %s is not a regular file", f->path);
	f->size = (uint64_t)st.st_size;
	return 0;
}

int ddp_checkpoint_load(const char *path, const char *kind,
			const struct ddp_section *sections, int n)
{
	struct file f = {path, -1, 0, BUF_INIT(HEADER_MAX + FIXED_SIZE),
			 ddp__last_error()};
	struct entry *entries = NULL;
	char *chunk = NULL;
	int rc = checkpoint_check_arguments(path, kind, sections, n, f.e);

	if (rc)
		return rc;
	entries = calloc((size_t)n + 1, sizeof(*entries));
	chunk = malloc(CHUNK);
	if (!entries || !chunk) {
		rc = err_no_memory(f.e, "checkpoint %s", path);
		goto out;
	}
	rc = checkpoint_open_file(&f);
	if (!rc)
		rc = checkpoint_read_header(&f);
	if (!rc)
		rc = checkpoint_parse_header(&f, kind, sections, n, entries);
	for (int i = 0; i < n && !rc; i++)
		rc = checkpoint_verify(&f, &entries[i], chunk);
	for (int i = 0; i < n && !rc; i++)
		rc = checkpoint_read_at(&f, sections[i].data, sections[i].size,
					entries[i].at);
out:
	if (f.fd >= 0)
		close(f.fd);
	buf_release(&f.header);
	free(entries);
	free(chunk);
	return rc;
}

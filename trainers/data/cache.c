/* cache.c: one file per block: a header of one page, then the block. It is
 * written under a temporary name with a lock held, renamed, and never changed
 * afterwards. */
#include "trainers/data/cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

enum { CACHE_VERSION = 1, HEADER_SIZE = 4096, IDENTITY_MAX = 4000 };
#define CACHE_MAGIC 0x6568636163706464u /* "ddpcache" */

/* Host byte order. */
struct cache_header {
	uint64_t magic;
	uint32_t version;
	uint32_t crc; /* checksum of the block */
	uint64_t size; /* size of the block */
	char identity[IDENTITY_MAX];
};

_Static_assert(sizeof(struct cache_header) <= HEADER_SIZE, "one page");

int cache_folder(char *out)
{
	const char *dir = getenv("DDP_CACHE");
	const char *below = "";
	int n;

	if (!dir || !*dir) {
		dir = getenv("XDG_CACHE_HOME");
		below = "/ddprun";
	}
	if (!dir || !*dir) {
		dir = getenv("HOME");
		below = "/.cache/ddprun";
	}
	if (!dir || !*dir)
		return 0;
	n = snprintf(out, CACHE_PATH_MAX, "%s%s", dir, below);
	return n < CACHE_PATH_MAX;
}

enum found { NOT_THERE, STALE, DAMAGED, FOREIGN, RIGHT };

static enum found cache_check(const struct cache_header *h,
			      const struct cache_source *s, int deep,
			      const struct cache_block *b)
{
	if (h->magic != CACHE_MAGIC)
		return DAMAGED;
	if (h->version != CACHE_VERSION ||
	    !memchr(h->identity, 0, sizeof(h->identity)) ||
	    strcmp(h->identity, s->identity))
		return STALE;
	if (h->size != b->size ||
	    (deep && crc32_z(0, b->data, b->size) != h->crc))
		return DAMAGED;
	return RIGHT;
}

/* Maps the file at path if it is complete and has this identity. deep: checks
 * its checksum as well. */
static enum found cache_map_file(const char *path, const struct cache_source *s,
				 int deep, struct cache_block *b)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum found found;
	struct stat st;
	char *map;

	if (fd < 0)
		return NOT_THERE;
	if (fstat(fd, &st) < 0 || st.st_size < HEADER_SIZE) {
		close(fd);
		return DAMAGED;
	}
	/* no other user may write to it: it is used in place while it is
	 * mapped */
	if (!file_is_trusted(&st)) {
		close(fd);
		return FOREIGN;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ,
		   MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return NOT_THERE;
	b->map = map;
	b->map_size = (size_t)st.st_size;
	b->data = map + HEADER_SIZE;
	b->size = b->map_size - HEADER_SIZE;
	found = cache_check((const struct cache_header *)(void *)map, s, deep,
			    b);
	if (found != RIGHT)
		cache_release(b);
	return found;
}

static int cache_write_file(const char *path, const struct cache_source *s,
			    const struct payload *p)
{
	char page[HEADER_SIZE] = {0};
	struct cache_header *h = (struct cache_header *)(void *)page;
	const struct iovec parts[] = {{page, sizeof(page)}, {p->data, p->size}};

	h->magic = CACHE_MAGIC;
	h->version = CACHE_VERSION;
	h->size = p->size;
	h->crc = (uint32_t)crc32_z(0, p->data, p->size);
	snprintf(h->identity, sizeof(h->identity), "%s", s->identity);
	return file_replace(path, parts, 2);
}

static int cache_file_path(const struct cache_source *s, char *dir, char *path)
{
	int n;

	if (!s->name || !cache_folder(dir))
		return 0;
	n = snprintf(path, CACHE_PATH_MAX, "%s/%s.ddpcache", dir, s->name);
	return n < CACHE_PATH_MAX;
}

static int cache_make_private(const struct cache_source *s,
			      struct cache_block *b, struct err *e)
{
	struct payload p = {NULL, 0};
	int r = s->make(s->arg, &p, e);

	if (r < 0)
		return r;
	b->own = p.data;
	b->data = p.data;
	b->size = p.size;
	return 0;
}

static void cache_note_not_kept(char *note, const char *where, int why)
{
	snprintf(note, ERR_TEXT_MAX,
		 "cannot keep decoded data in %.400s: %s; decoding it again "
		 "each time (set DDP_CACHE to another folder)",
		 where, strerror(-why));
}

/* Called with the lock held. Maps the block from the file if possible, so that
 * the ranks of a host share its memory. */
static int cache_make_file(const char *dir, const char *path,
			   const struct cache_source *s, struct cache_block *b,
			   char *note, struct err *e)
{
	enum found found = cache_map_file(path, s, 1, b);
	int r;

	if (found == RIGHT)
		return 0;
	if (found == DAMAGED)
		snprintf(note, ERR_TEXT_MAX,
			 "%.900s was damaged; creating it again", path);
	if (found == FOREIGN)
		snprintf(note, ERR_TEXT_MAX,
			 "%.900s belongs to another user, or others can write "
			 "to it: ignoring it (set DDP_CACHE to another folder)",
			 path);
	r = cache_make_private(s, b, e);
	if (r < 0)
		return r;
	r = cache_write_file(path, s, &(struct payload){b->own, b->size});
	if (r == 0) {
		struct cache_block mapped = {0};

		if (cache_map_file(path, s, 0, &mapped) == RIGHT) {
			cache_release(b);
			*b = mapped;
		}
	} else if (found != FOREIGN) {
		cache_note_not_kept(note, dir, r);
	}
	return 0;
}

int cache_prepare(const struct cache_source *s, struct cache_block *b,
		  char *note, struct err *e)
{
	char dir[CACHE_PATH_MAX], path[CACHE_PATH_MAX];
	int why, fd, r;

	memset(b, 0, sizeof(*b));
	*note = 0;
	if (!cache_file_path(s, dir, path))
		return cache_make_private(s, b, e);
	/* a read-only cache with a valid file is fine */
	if (access(dir, W_OK) < 0 && cache_map_file(path, s, 1, b) == RIGHT)
		return 0;
	why = file_make_folders(dir);
	if (why < 0) {
		cache_note_not_kept(note, dir, why);
		return cache_make_private(s, b, e);
	}
	/* without a lock two processes may do the same work */
	fd = file_lock_beside(path);
	r = cache_make_file(dir, path, s, b, note, e);
	if (fd >= 0)
		close(fd);
	return r;
}

int cache_open(const struct cache_source *s, struct cache_block *b,
	       struct err *e)
{
	char dir[CACHE_PATH_MAX], path[CACHE_PATH_MAX];

	memset(b, 0, sizeof(*b));
	if (cache_file_path(s, dir, path) &&
	    cache_map_file(path, s, 0, b) == RIGHT)
		return 0;
	return cache_make_private(s, b, e);
}

void cache_release(struct cache_block *b)
{
	if (b->map)
		munmap(b->map, b->map_size);
	free(b->own);
	memset(b, 0, sizeof(*b));
}

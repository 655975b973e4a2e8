/* plan_cache.c: a text file: a line that identifies it, a line for each plan,
 * and a checksum. A writer locks it, reads it, and replaces the whole file by
 * the old and the new plans. */
#include "trainers/cuda/plan_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"

enum { CACHE_BYTES_MAX = 4 << 20, CACHE_HEAD_MAX = 256 };

struct cache_entry {
	char key[PLAN_KEY_MAX], engine[PLAN_ENGINE_MAX];
	double us;
};

struct plan_cache {
	char folder[PATH_MAX], path[PATH_MAX + 256]; /* "": memory only */
	char head[CACHE_HEAD_MAX];
	void (*note)(const char *line);
	struct cache_entry *entry;
	size_t count, room;
};

static void cache_note(const struct plan_cache *c, const char *what,
		       const char *why)
{
	char line[PATH_MAX + 512];

	snprintf(line, sizeof(line), "%s: %s%s%s", c->path, what,
		 why ? ": " : "", why ? why : "");
	if (c->note)
		c->note(line);
}

/* ---- Memory ---- */

static struct cache_entry *cache_entry_of(const struct plan_cache *c,
					  const char *key)
{
	for (size_t i = 0; i < c->count; i++)
		if (!strcmp(c->entry[i].key, key))
			return &c->entry[i];
	return NULL;
}

/* NULL: no memory. */
static struct cache_entry *cache_put(struct plan_cache *c, const char *key,
				     const char *engine, double us)
{
	struct cache_entry *e = cache_entry_of(c, key);

	if (!e && c->count == c->room) {
		size_t room = c->room ? c->room * 2 : 64;

		e = realloc(c->entry, room * sizeof(*e));
		if (!e)
			return NULL;
		c->entry = e;
		c->room = room;
		e = NULL;
	}
	if (!e)
		e = &c->entry[c->count++];
	snprintf(e->key, sizeof(e->key), "%s", key);
	snprintf(e->engine, sizeof(e->engine), "%s", engine);
	e->us = us;
	return e;
}

/* ---- Text ---- */

static uint32_t cache_checksum(const char *text, size_t n)
{
	uint32_t sum = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ (unsigned char)text[i]) * 16777619u;
	return sum;
}

/* A line without its end: "key<tab>engine<tab>microseconds". 0: malformed. */
static int cache_parse_line(struct plan_cache *c, char *line)
{
	char *engine = strchr(line, '\t'), *us, *end;
	double t;

	if (!engine)
		return 0;
	*engine++ = '\0';
	us = strchr(engine, '\t');
	if (!us)
		return 0;
	*us++ = '\0';
	t = strtod(us, &end);
	if (end == us || *end || !*line || !*engine ||
	    strlen(line) >= PLAN_KEY_MAX || strlen(engine) >= PLAN_ENGINE_MAX)
		return 0;
	return cache_put(c, line, engine, t) != NULL;
}

/* The file's plans replace those in memory. 0: it is damaged. */
static int cache_parse(struct plan_cache *c, char *text)
{
	char *last = strstr(text, "\nsum "), *line, *next, *end;
	unsigned long sum;

	if (!last || strncmp(text, c->head, strlen(c->head)))
		return 0;
	sum = strtoul(last + 5, &end, 16);
	if (strcmp(end, "\n") ||
	    sum != cache_checksum(text, (size_t)(last + 1 - text)))
		return 0;
	last[1] = '\0';
	for (line = text + strlen(c->head); *line; line = next) {
		next = strchr(line, '\n');
		if (!next)
			return 0;
		*next++ = '\0';
		if (!cache_parse_line(c, line))
			return 0;
	}
	return 1;
}

/* ---- The file ---- */

enum found { CACHE_READ, CACHE_MISSING, CACHE_DAMAGED, CACHE_FOREIGN };

static enum found cache_read_fd(struct plan_cache *c, int fd)
{
	struct stat st;
	char *text;
	enum found found = CACHE_DAMAGED;

	if (fstat(fd, &st) < 0)
		return CACHE_MISSING;
	if (!file_is_trusted(&st))
		return CACHE_FOREIGN;
	if (!S_ISREG(st.st_mode) || st.st_size > CACHE_BYTES_MAX)
		return CACHE_DAMAGED;
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return CACHE_MISSING;
	if (file_read_all(fd, text, (size_t)st.st_size) == 0 &&
	    cache_parse(c, text))
		found = CACHE_READ;
	free(text);
	return found;
}

static enum found cache_read(struct plan_cache *c)
{
	int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	enum found found;

	if (fd < 0)
		return CACHE_MISSING;
	found = cache_read_fd(c, fd);
	close(fd);
	return found;
}

static size_t cache_format(const struct plan_cache *c, char *out, size_t size)
{
	size_t at = (size_t)snprintf(out, size, "%s", c->head);

	for (size_t i = 0; i < c->count && at < size; i++)
		at += (size_t)snprintf(out + at, size - at, "%s\t%s\t%.1f\n",
				       c->entry[i].key, c->entry[i].engine,
				       c->entry[i].us);
	if (at < size)
		at += (size_t)snprintf(out + at, size - at, "sum %08x\n",
				       cache_checksum(out, at));
	return at;
}

static int cache_write(const struct plan_cache *c)
{
	size_t size = CACHE_HEAD_MAX + 32 +
		      (c->count + 1) * (PLAN_KEY_MAX + PLAN_ENGINE_MAX + 64);
	struct iovec text = {malloc(size), 0};
	int r;

	if (!text.iov_base)
		return -ENOMEM;
	text.iov_len = cache_format(c, text.iov_base, size);
	r = file_replace(c->path, &text, 1);
	free(text.iov_base);
	return r;
}

/* ---- Calls ---- */

/* "conv-NVIDIA_H200_sm_90-91900.plans" */
static void cache_set_path(struct plan_cache *c, const char *folder,
			   const char *device, size_t version)
{
	int n = snprintf(c->folder, sizeof(c->folder), "%s", folder);
	size_t at;

	if (n < 0 || (size_t)n >= sizeof(c->folder))
		return;
	at = (size_t)snprintf(c->path, sizeof(c->path), "%s/conv-", folder);
	for (const char *s = device; *s && at < sizeof(c->path) - 40; s++)
		c->path[at++] = (*s >= 'a' && *s <= 'z') ||
				(*s >= 'A' && *s <= 'Z') ||
				(*s >= '0' && *s <= '9') ? *s : '_';
	snprintf(c->path + at, sizeof(c->path) - at, "-%zu.plans", version);
}

/* Later calls only use memory. */
static void cache_stop(struct plan_cache *c, const char *what, int why)
{
	cache_note(c, what, why ? strerror(-why) : NULL);
	c->path[0] = '\0';
}

static void cache_refuse(struct plan_cache *c)
{
	cache_stop(c, "another user's, or others can write to it: tuned plans "
		   "are neither read nor kept (DDP_CACHE names another folder)",
		   0);
}

struct plan_cache *plan_cache_new(const char *folder, const char *device,
				  size_t version,
				  void (*note)(const char *line))
{
	struct plan_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->note = note;
	snprintf(c->head, sizeof(c->head), "ddprun conv plans 1: %.180s, "
		 "cuDNN %zu\n", device, version);
	if (!folder)
		return c;
	cache_set_path(c, folder, device, version);
	switch (cache_read(c)) {
	case CACHE_DAMAGED:
		c->count = 0;
		cache_note(c, "damaged, or not a file of tuned plans: "
			   "convolutions are measured again", NULL);
		break;
	case CACHE_FOREIGN:
		cache_refuse(c);
		break;
	case CACHE_READ:
	case CACHE_MISSING:
		break;
	}
	return c;
}

void plan_cache_free(struct plan_cache *c)
{
	if (!c)
		return;
	free(c->entry);
	free(c);
}

const char *plan_cache_find(const struct plan_cache *c, const char *key)
{
	const struct cache_entry *e = cache_entry_of(c, key);

	return e ? e->engine : NULL;
}

/* Reads the plans that others have added, then writes all. Theirs come first,
 * unless the caller replaces them. */
static void cache_merge(struct plan_cache *c, const struct cache_entry *own,
			int again)
{
	int lock, r = file_make_folders(c->folder);
	enum found found;

	if (r < 0) {
		cache_stop(c, "tuned plans cannot be kept", r);
		return;
	}
	/* without a lock another process's plan may be lost */
	lock = file_lock_beside(c->path);
	found = cache_read(c);
	if (found == CACHE_FOREIGN) {
		cache_refuse(c);
	} else {
		if (again)
			cache_put(c, own->key, own->engine, own->us);
		r = cache_write(c);
		if (r < 0)
			cache_stop(c, "tuned plans cannot be kept", r);
	}
	if (lock >= 0)
		close(lock);
}

const char *plan_cache_add(struct plan_cache *c, const char *key,
			   const char *engine, double microseconds, int again)
{
	const struct cache_entry *e =
		cache_put(c, key, engine, microseconds);
	struct cache_entry own;

	if (!e)
		return engine;
	own = *e;
	if (c->path[0])
		cache_merge(c, &own, again);
	return plan_cache_find(c, key);
}

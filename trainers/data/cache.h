/* cache.h: data sets, decoded once per host into a file that one process at a
 * time makes and all map read-only. Knows neither the contents nor ranks. */
#ifndef TRAINERS_CACHE_H
#define TRAINERS_CACHE_H

#include <stddef.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

enum { CACHE_PATH_MAX = 4096 };

/* A block's contents, and how to make them. */
struct cache_source {
	const char *name;     /* file name in the cache ("mnist-5fe0a7"); NULL:
			       * not worth a file, every rank makes its own
			       * block */
	const char *identity; /* identity of the source files; a cache file with
			       * another identity is stale and made again */
	/* Sets p; the cache then owns its data and frees it. */
	int (*make)(void *arg, struct payload *p, struct err *e);
	void *arg;
};

/* A mapped or a private block. */
struct cache_block {
	const void *data;
	size_t size;
	void *map; /* to unmap; NULL: none */
	size_t map_size;
	void *own;
};

/* Sets out to the cache directory: $DDP_CACHE, else $XDG_CACHE_HOME/ddprun,
 * else $HOME/.cache/ddprun. Returns 0 if the environment names none. */
int cache_folder(char *out);

/* Called by one process per host: maps the cache file if it is valid (checksum
 * included), else makes it, while other callers wait. A file that is damaged,
 * belongs to another user (except root) or is writable by others is made again.
 * If nothing can be written the block is private. These are not errors;
 * note[ERR_TEXT_MAX] says so, or is "". Errors are make's. */
int cache_prepare(const struct cache_source *s, struct cache_block *b,
		  char *note, struct err *e);

/* Called by the host's other processes afterwards: maps the file, or makes a
 * private block if there is none. */
int cache_open(const struct cache_source *s, struct cache_block *b,
	       struct err *e);

void cache_release(struct cache_block *b);

#endif

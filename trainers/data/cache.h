/* cache.h: data sets decoded once a host: a block of bytes in a file that is
 * made by one process at a time and mapped read-only by all. Knows neither what
 * is in the block nor ranks. */
#ifndef TRAINERS_CACHE_H
#define TRAINERS_CACHE_H

#include <stddef.h>

#include "base/error.h"
#include "trainers/data/dataset.h"

enum { CACHE_PATH_MAX = 4096 };

/* What the block is, and how to make it. */
struct cache_source {
	const char *name;     /* file name in the cache: "mnist-5fe0a7"; NULL:
				 not worth a file, all make it */
	const char *identity; /* of what it is made from; a file of another
				 identity is stale and made again */
	/* Sets p; its data then belongs to the cache, which frees it. */
	int (*make)(void *arg, struct payload *p, struct err *e);
	void *arg;
};

/* A mapped or a private block. */
struct cache_block {
	const void *data;
	size_t size;
	void *map; /* what _release undoes; NULL: none */
	size_t map_size;
	void *own;
};

/* Where decoded data is kept: $DDP_CACHE, else $XDG_CACHE_HOME/ddprun, else
 * $HOME/.cache/ddprun. Returns 0 if the environment names no place. */
int cache_folder(char *out);

/* By one process a host: takes the file if it is right (checksum and all),
 * else makes it, while others that call this wait. A file that was damaged, is
 * another user's (but root's), or that others can write to, is made again;
 * where nothing can be written it makes a private block: these are no errors,
 * but told in note (ERR_TEXT_MAX bytes, else ""). Errors are make's.
 */
int cache_prepare(const struct cache_source *s, struct cache_block *b,
		  char *note, struct err *e);

/* By the others, after it: maps the file, or makes a private block where there
 * is none. */
int cache_open(const struct cache_source *s, struct cache_block *b,
	       struct err *e);

void cache_release(struct cache_block *b);

#endif

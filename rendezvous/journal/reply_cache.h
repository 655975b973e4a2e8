/* reply_cache.h: what is known of a worker's last request that changed
 * something, so that one which comes again (its answer was lost with a
 * connection, or with the server) is answered again and not done again. One for
 * each session of a round; sessions whose connection has gone are kept up to a
 * limit. Pure. */
#ifndef RENDEZVOUS_REPLY_CACHE_H
#define RENDEZVOUS_REPLY_CACHE_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

enum {
	/* Sessions that are gone and may come again: of each rank, on average,
	 * and beyond that of all. A worker that leaves the job in order is no
	 * other than one whose connection was lost. */
	REPLY_CACHE_PER_RANK = 8,
	REPLY_CACHE_MORE = 64
};

struct cached_reply {
	struct hash_item item; /* first: by session */
	struct cached_reply *next, **pprev; /* here, or gone */
	uint64_t session;
	uint32_t rank;
	uint32_t id;   /* of the request */
	uint8_t type;  /* its enum wire_type; 0: none yet */
	int64_t value; /* the answer, of those that are one number */
	void *owner; /* who is here as it, now; the caller's. NULL: gone */
	struct barrier_gather *met; /* of a gather: what was gathered, held */
};

/* In the order in which they came to be in it. */
struct reply_list {
	struct cached_reply *first, **end; /* end NULL: never used */
};

/* A round's. */
struct reply_cache {
	struct hash_table table;
	struct reply_list here, gone;
	size_t ngone, most_gone; /* most 0: no limit */
	struct journal_writer *writer; /* where changes go; NULL: nowhere */
	uint64_t job;            /* the job's number in it */
};

/* Sets that limit, for a round with this number of ranks. */
void reply_cache_limit(struct reply_cache *ps, uint32_t ranks);

/* That of the session, or NULL. */
struct cached_reply *reply_cache_find(struct reply_cache *ps, uint64_t session);
/* The same, made (and gone) where there is none; NULL: out of memory. */
struct cached_reply *reply_cache_find_or_make(struct reply_cache *ps,
					      uint64_t session, uint32_t rank);
/* The session has a connection: owner. */
void reply_cache_take(struct reply_cache *ps, struct cached_reply *p,
		      void *owner);
/* It has none any more; past may be forgotten with it. */
void reply_cache_leave(struct reply_cache *ps, struct store *s,
		       struct cached_reply *p);
/* GATHER, SHARE: what is answered again is what was gathered. */
int reply_cache_is_gather(uint8_t type);
/* The last is this now. met: held until the next one; NULL but for a gather.
 * Others that are gone may be forgotten. */
void reply_cache_set(struct reply_cache *ps, struct cached_reply *p,
		     struct store *s, uint32_t id, uint8_t type, int64_t value,
		     struct barrier_gather *met);
/* Iterates over all: first the gone ones, in the order in which they went, so
 * that a reader of this order forgets the same ones. NULL begins and ends. */
const struct cached_reply *reply_cache_next(const struct reply_cache *ps,
					    const struct cached_reply *after);
/* Forgets all, before the store goes. */
void reply_cache_release(struct reply_cache *ps, struct store *s);

#endif

/* reply_cache.h: the reply to each worker's last mutating request, so that a
 * request that is repeated after a reconnect (its reply was lost with a
 * connection, or with the server) is answered, not executed twice. One for each
 * session of a round; those without a connection are kept up to a limit. Pure.
 */
#ifndef RENDEZVOUS_REPLY_CACHE_H
#define RENDEZVOUS_REPLY_CACHE_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

enum {
	/* The limit of sessions kept without a connection: per rank, plus a
	 * constant. A worker that has left for good looks like one whose
	 * connection was lost. */
	REPLY_CACHE_PER_RANK = 8,
	REPLY_CACHE_MORE = 64
};

struct cached_reply {
	struct hash_item item; /* first: by session */
	struct cached_reply *next, **pprev; /* in `here` or `gone` */
	uint64_t session;
	uint32_t rank;
	uint32_t id;   /* the request's */
	uint8_t type;  /* its enum wire_type; 0: none yet */
	int64_t value; /* the reply, if it is a number */
	void *owner;   /* its connection, the caller's; NULL: gone */
	struct barrier_gather *met; /* the result of a gather, held */
};

/* In the order in which they were added. */
struct reply_list {
	struct cached_reply *first, **end; /* end NULL: never used */
};

/* A round's. */
struct reply_cache {
	struct hash_table table;
	struct reply_list here, gone;
	size_t ngone, most_gone; /* most 0: no limit */
	struct journal_writer *writer; /* records changes; or NULL */
	uint64_t job;                  /* the job's number in it */
};

/* Sets most_gone for a round with this number of ranks. */
void reply_cache_limit(struct reply_cache *ps, uint32_t ranks);

/* The session's reply, or NULL. */
struct cached_reply *reply_cache_find(struct reply_cache *ps, uint64_t session);
/* The same, made (as gone) if there is none; NULL: out of memory. */
struct cached_reply *reply_cache_find_or_make(struct reply_cache *ps,
					      uint64_t session, uint32_t rank);
/* The session has a connection, owner. */
void reply_cache_take(struct reply_cache *ps, struct cached_reply *p,
		      void *owner);
/* Its connection is gone; p may be freed. */
void reply_cache_leave(struct reply_cache *ps, struct store *s,
		       struct cached_reply *p);
/* GATHER or SHARE: the reply is the result of a gather. */
int reply_cache_is_gather(uint8_t type);
/* Sets the session's last reply. met is held until the next one; NULL unless it
 * is a gather. Other sessions that are gone may be freed. */
void reply_cache_set(struct reply_cache *ps, struct cached_reply *p,
		     struct store *s, uint32_t id, uint8_t type, int64_t value,
		     struct barrier_gather *met);
/* Iterates over all, first over those without a connection, in the order in
 * which they lost it, so that a replay in this order drops the same ones. NULL
 * begins and ends. */
const struct cached_reply *reply_cache_next(const struct reply_cache *ps,
					    const struct cached_reply *after);
/* Drops all, before the store is freed. */
void reply_cache_release(struct reply_cache *ps, struct store *s);

#endif

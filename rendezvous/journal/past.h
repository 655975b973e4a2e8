/* past.h: what is known of a worker's last request that changed something, so
 * that one which comes again (its answer was lost with a connection, or with
 * the server) is answered again and not done again. One for each session of a
 * round; sessions whose connection has gone are kept up to a limit. Pure. */
#ifndef RENDEZVOUS_PAST_H
#define RENDEZVOUS_PAST_H

#include "rendezvous/store/store.h"
#include "rendezvous/wire.h"

enum {
	/* Sessions that are gone and may come again: of each rank, on average,
	 * and beyond that of all. A worker that leaves the job in order is no
	 * other than one whose connection was lost. */
	PASTS_OF_RANK = 8,
	PASTS_MORE = 64
};

struct past {
	struct table_item item; /* first: by session */
	struct past *next, **pprev; /* here, or gone */
	uint64_t session;
	uint32_t rank;
	uint32_t id;   /* of the request */
	uint8_t type;  /* its enum wire_type; 0: none yet */
	int64_t value; /* the answer, of those that are one number */
	void *owner; /* who is here as it, now; the caller's. NULL: gone */
	struct meeting *met; /* of a gather: what was gathered, held */
};

/* In the order in which they came to be in it. */
struct past_list {
	struct past *first, **end; /* end NULL: never used */
};

/* A round's. */
struct pasts {
	struct table table;
	struct past_list here, gone;
	size_t ngone, most_gone; /* most 0: no limit */
	struct history *history; /* where changes go; NULL: nowhere */
	uint64_t job;            /* the job's number in it */
};

/* Sets that limit, for a round with this number of ranks. */
void pasts_limit(struct pasts *ps, uint32_t ranks);

/* That of the session, or NULL. */
struct past *past_find(struct pasts *ps, uint64_t session);
/* The same, made (and gone) where there is none; NULL: out of memory. */
struct past *past_find_or_make(struct pasts *ps, uint64_t session,
			       uint32_t rank);
/* The session has a connection: owner. */
void past_take(struct pasts *ps, struct past *p, void *owner);
/* It has none any more; past may be forgotten with it. */
void past_leave(struct pasts *ps, struct store *s, struct past *p);
/* GATHER, SHARE: what is answered again is what was gathered. */
int past_is_gather(uint8_t type);
/* The last is this now. met: held until the next one; NULL but for a gather.
 * Others that are gone may be forgotten. */
void past_set(struct pasts *ps, struct past *p, struct store *s, uint32_t id,
	      uint8_t type, int64_t value, struct meeting *met);
/* Iterates over all: first the gone ones, in the order in which they went, so
 * that a reader of this order forgets the same ones. NULL begins and ends. */
const struct past *past_next(const struct pasts *ps, const struct past *after);
/* Forgets all, before the store goes. */
void pasts_release(struct pasts *ps, struct store *s);

#endif

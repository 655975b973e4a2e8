/* past.h: what is known of a worker's last request that changed something, so
 * that one which comes again (its answer was lost with a connection, or with
 * the server) is answered again and not done again. One for each session of a
 * round. Pure. */
#ifndef RENDEZVOUS_PAST_H
#define RENDEZVOUS_PAST_H

#include "rendezvous/store.h"
#include "rendezvous/wire.h"

struct past {
	struct table_item item; /* first: by session */
	uint64_t session;
	uint32_t rank;
	uint32_t id;   /* of the request */
	uint8_t type;  /* its enum wire_type; 0: none yet */
	int64_t value; /* the answer, of those that are one number */
	void *owner; /* who is here as it, now; the caller's */
	struct meeting *met; /* of a gather: what was gathered, held */
};

/* A round's. */
struct pasts {
	struct table table;
	struct history *history; /* where changes go; NULL: nowhere */
	uint64_t job;            /* the job's number in it */
};

/* That of the session, or NULL. */
struct past *past_find(struct pasts *p, uint64_t session);
/* The same, made where there is none; NULL: out of memory. */
struct past *past_find_or_make(struct pasts *p, uint64_t session,
			       uint32_t rank);
/* GATHER, SHARE: what is answered again is what was gathered. */
int past_is_gather(uint8_t type);
/* The last is this now. met: held until the next one; NULL but for a gather. */
void past_set(struct past *p, struct store *s, uint32_t id, uint8_t type,
	      int64_t value, struct meeting *met);
/* Forgets all, before the store goes. */
void pasts_release(struct pasts *p, struct store *s);

#endif

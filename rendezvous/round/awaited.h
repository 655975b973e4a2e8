/* awaited.h: whom a wait is for, in words of one shape: "1 of 128 nodes: n07
 * (agent connected, has not joined)". Pure: what is known goes in. Two texts
 * that differ in their times only have the same hash. */
#ifndef RENDEZVOUS_AWAITED_H
#define RENDEZVOUS_AWAITED_H

#include "rendezvous/round/round.h"
#include "rendezvous/store/store.h"

enum {
	AWAITED_NAMED = 6,      /* then it is "and 30 more" */
	AWAITED_SILENT_MS = 2000, /* less is not worth a word */
};

struct awaited {
	struct buf text; /* empty: nobody is waited for */
	uint64_t hash;
	uint32_t missing, said;
};

/* What only the server knows of the nodes of a job. */
struct awaited_nodes {
	/* hosts of agents that are connected and have not joined */
	const char *const *unjoined;
	uint32_t nunjoined;
	uint64_t ending_ms; /* since the last round ended */
	/* how long nothing was heard of it; NULL: not known */
	uint64_t (*silent_ms)(void *owner);
};

/* And of a rank. */
struct awaited_rank {
	uint32_t rank;
	const char *host;  /* NULL: not known */
	const char *ended; /* how it did; NULL: it runs */
	int connected;
	uint64_t silent_ms;       /* of its connection, or else its agent */
	const char *itself; /* what it waits for itself; NULL: nothing */
};

void awaited_init(struct awaited *a); /* also before it is used again */
void awaited_release(struct awaited *a);

/* For the next round of a job that does not run. */
void awaited_put_nodes(struct awaited *a, const struct job *j,
		       const struct awaited_nodes *known);
/* Keys, or callers of a barrier or a gather, of which awaited_put_rank then
 * says who they are (where awaited_has_room), and awaited_end ends it. */
void awaited_begin(struct awaited *a, const struct store_waiter *w);
/* The end of so many ranks; awaited_put_rank as above. */
void awaited_begin_ends(struct awaited *a, uint32_t missing, uint32_t of);
int awaited_has_room(const struct awaited *a);
void awaited_put_rank(struct awaited *a, const struct awaited_rank *r);
void awaited_end(struct awaited *a);
/* Behind all that. */
void awaited_put_note(struct awaited *a, const char *note);

/* Says ERR_TIMEOUT: "waited 1.5 s for ...". Returns it. */
int awaited_timed_out(const struct awaited *a, uint64_t waited_ms,
		      struct err *e);
/* "at gather 'x'", "for key 'k' and 3 more": of one who waits. */
void awaited_put_itself(struct buf *out, const struct store_waiter *w);

#endif

/* wait_text.h: whom a wait is for, in words of one shape: "1 of 128 nodes: n07
 * (agent connected, has not joined)". Pure: what is known goes in. Two texts
 * that differ in their times only have the same hash. */
#ifndef RENDEZVOUS_WAIT_TEXT_H
#define RENDEZVOUS_WAIT_TEXT_H

#include "rendezvous/round/job.h"
#include "rendezvous/store/store.h"

enum {
	WAIT_TEXT_NAMED = 6,      /* then it is "and 30 more" */
	WAIT_TEXT_SILENT_MS = 2000, /* less is not worth a word */
};

struct wait_text {
	struct buf text; /* empty: nobody is waited for */
	uint64_t hash;
	uint32_t missing, said;
};

/* What only the server knows of the nodes of a job. */
struct wait_text_nodes {
	/* hosts of agents that are connected and have not joined */
	const char *const *unjoined;
	uint32_t nunjoined;
	uint64_t ending_ms; /* since the last round ended */
	/* how long nothing was heard of it; NULL: not known */
	uint64_t (*silent_ms)(void *owner);
};

/* And of a rank. */
struct wait_text_rank {
	uint32_t rank;
	const char *host;  /* NULL: not known */
	const char *ended; /* how it did; NULL: it runs */
	int connected;
	uint64_t silent_ms;       /* of its connection, or else its agent */
	const char *itself; /* what it waits for itself; NULL: nothing */
};

void wait_text_init(struct wait_text *a); /* also before it is used again */
void wait_text_release(struct wait_text *a);

/* For the next round of a job that does not run. */
void wait_text_put_nodes(struct wait_text *a, const struct job *j,
		       const struct wait_text_nodes *known);
/* Keys, or callers of a barrier or a gather, of which wait_text_put_rank then
 * says who they are (where wait_text_has_room), and wait_text_end ends it. */
void wait_text_begin(struct wait_text *a, const struct store_waiter *w);
/* The end of so many ranks; wait_text_put_rank as above. */
void wait_text_begin_ends(struct wait_text *a, uint32_t missing, uint32_t of);
int wait_text_has_room(const struct wait_text *a);
void wait_text_put_rank(struct wait_text *a, const struct wait_text_rank *r);
void wait_text_end(struct wait_text *a);
/* Behind all that. */
void wait_text_put_note(struct wait_text *a, const char *note);

/* Says ERR_TIMEOUT: "waited 1.5 s for ...". Returns it. */
int wait_text_timed_out(const struct wait_text *a, uint64_t waited_ms,
		      struct err *e);
/* "at gather 'x'", "for key 'k' and 3 more": of one who waits. */
void wait_text_put_itself(struct buf *out, const struct store_waiter *w);

#endif

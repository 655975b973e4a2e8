/* wait_text.h: describes what a peer waits for, always in the same form: "1 of
 * 128 nodes: n07 (agent connected, has not joined)". Pure: the caller passes in
 * what is known. Texts that differ only in their times have the same hash. */
#ifndef RENDEZVOUS_WAIT_TEXT_H
#define RENDEZVOUS_WAIT_TEXT_H

#include "rendezvous/round/job.h"
#include "rendezvous/store/store.h"

enum {
	WAIT_TEXT_NAMED = 6,        /* beyond it: "and 30 more" */
	WAIT_TEXT_SILENT_MS = 2000, /* shorter silences are not mentioned */
};

struct wait_text {
	struct buf text; /* empty: the peer does not wait */
	uint64_t hash;
	uint32_t missing, said;
};

/* Facts about a job's nodes that only the server knows. */
struct wait_text_nodes {
	/* hosts of agents that are connected and have not joined */
	const char *const *unjoined;
	uint32_t nunjoined;
	uint64_t ending_ms; /* since the last round ended */
	/* how long the node has been silent; NULL: unknown */
	uint64_t (*silent_ms)(void *owner);
};

/* The same for a rank. */
struct wait_text_rank {
	uint32_t rank;
	const char *host;  /* NULL: unknown */
	const char *ended; /* how; NULL: it runs */
	int connected;
	uint64_t silent_ms;       /* its connection's, or else its agent's */
	const char *itself; /* what this rank waits for; NULL: nothing */
	struct slice does;  /* what it does instead; empty: not known */
};

void wait_text_init(struct wait_text *a); /* also to start again */
void wait_text_release(struct wait_text *a);

/* The nodes that the next round of a job waits for. */
void wait_text_put_nodes(struct wait_text *a, const struct job *j,
		       const struct wait_text_nodes *known);
/* Whether nodes that wait in both jobs may have been meant for one: both gather
 * their first round with the same numbers of nodes, and all would fit in. */
int wait_text_is_twin(const struct job *j, const struct job *other);
/* After wait_text_put_nodes: names such a job. */
void wait_text_put_twin(struct wait_text *a, const struct job *other);
/* Keys, or callers of a barrier or a gather. Then wait_text_put_rank names the
 * callers (while wait_text_has_room), and wait_text_end completes the text. */
void wait_text_begin(struct wait_text *a, const struct store_waiter *w);
/* The same for a wait for the end of `missing` ranks. */
void wait_text_begin_ends(struct wait_text *a, uint32_t missing, uint32_t of);
int wait_text_has_room(const struct wait_text *a);
void wait_text_put_rank(struct wait_text *a, const struct wait_text_rank *r);
void wait_text_end(struct wait_text *a);
/* Appends a note to the complete text. */
void wait_text_put_note(struct wait_text *a, const char *note);

/* Sets and returns ERR_TIMEOUT: "waited 1.5 s for ...". */
int wait_text_timed_out(const struct wait_text *a, uint64_t waited_ms,
		      struct err *e);
/* Where a waiter waits: "at gather 'x'", "for key 'k' and 3 more". */
void wait_text_put_itself(struct buf *out, const struct store_waiter *w);

#endif

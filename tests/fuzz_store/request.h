/* request.h: the requests of a client: draws them, encodes them, and decodes
 * the answers into acts on keys. Knows neither time nor connections. */
#ifndef TESTS_FUZZ_STORE_REQUEST_H
#define TESTS_FUZZ_STORE_REQUEST_H

#include "tests/fuzz_store/model.h"
#include "tests/fuzz_store/peer.h"

enum {
	KEYS = 48,   /* with values; the first one has an empty name */
	HOT = 6,     /* half of all requests use these */
	COUNTERS_AT = 40, /* from here on keys have only numbers */
	QUEUES = 4,
	FLAGS_AT = KEYS + QUEUES, /* each is set once, and clients wait for
				   * it */
	FLAGS_MAX = 1 << 16,
	KEYS_ALL = FLAGS_AT + FLAGS_MAX,
	REQUEST_KEYS = 4,
	OURS = 5,
	CLIENTS = 8, /* the first OURS use our protocol, the others PyTorch's */
};

enum request_kind {
	R_SET, R_GET, R_ADD, R_COMPARE_SET, R_APPEND, R_DELETE, R_WAIT,
	R_MULTI_SET, R_MULTI_GET, R_PUSH, R_POP, R_LENGTH, R_BARRIER, R_GATHER,
};

/* A barrier or a gather among some of the clients of our protocol. */
struct barrier_gather {
	int gather;
	uint32_t number, size;
	uint32_t todo, left; /* bits: ranks that have not asked yet; ranks
			      * without an answer */
	uint64_t latest; /* when the last one asked */
};

struct request {
	enum request_kind kind;
	uint32_t number;
	uint64_t began;
	uint64_t sent;       /* when it was last sent */
	uint32_t timeout_ms; /* for a WAIT; the test's own in PyTorch's */
	int canceled;        /* the test has canceled the WAIT */
	uint32_t n, keys[REQUEST_KEYS];
	struct value a[REQUEST_KEYS], b;
	int64_t delta;
	struct barrier_gather *meeting;
};

/* What all clients share: the dice, and what is known about the keys. */
struct fuzz {
	uint64_t dice[CLIENTS];
	struct buf seen[KEYS]; /* the last value that a client has read */
	uint32_t flag;         /* clients wait for it now */
	uint32_t requests;
	int queued[QUEUES];    /* approximately */
	int wants_bytes;       /* the journal is to grow */
};

uint32_t roll(uint64_t *dice, uint32_t sides);
void key_name(uint32_t key, struct buf *out);

/* Draws a request and encodes it into p->out. */
void request_draw(struct request *r, struct fuzz *f, struct peer *p);
/* The same for a barrier or gather. */
void request_meet(struct request *r, struct fuzz *f, struct peer *p,
		  struct barrier_gather *m);
/* Cancels a wait in PyTorch's protocol. */
void request_cancel(struct request *r, struct peer *p);

/* Decodes the answer in p->in: 1, *n acts and the answer is consumed; 0: more
 * has to arrive; -1: it is not an answer to r, for the reason in why. The
 * caller sets the acts' times. */
int request_answered(const struct request *r, struct fuzz *f, struct peer *p,
		     struct act *acts, uint32_t *n, char why[512]);
/* The acts of a request without an answer, which may have happened. Returns
 * their number. */
uint32_t request_lost(const struct request *r, struct act *acts);

#endif

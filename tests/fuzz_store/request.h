/* request.h: what one client asks: drawn by chance, put into bytes, and its
 * answer taken apart into acts on keys. Knows neither time nor connections. */
#ifndef TESTS_FUZZ_STORE_REQUEST_H
#define TESTS_FUZZ_STORE_REQUEST_H

#include "tests/fuzz_store/model.h"
#include "tests/fuzz_store/peer.h"

enum {
	KEYS = 48,   /* for values; the first has an empty name */
	HOT = 6,     /* which half of all requests are about */
	COUNTERS_AT = 40, /* from here on they hold numbers and nothing else */
	QUEUES = 4,
	FLAGS_AT = KEYS + QUEUES, /* each is set once, and waited for */
	FLAGS_MAX = 1 << 16,
	KEYS_ALL = FLAGS_AT + FLAGS_MAX,
	REQUEST_KEYS = 4,
	OURS = 5,
	CLIENTS = 8, /* OURS in our protocol, the others in PyTorch's */
};

enum request_kind {
	R_SET, R_GET, R_ADD, R_COMPARE_SET, R_APPEND, R_DELETE, R_WAIT,
	R_MULTI_SET, R_MULTI_GET, R_PUSH, R_POP, R_LENGTH, R_BARRIER, R_GATHER,
};

/* A barrier or a gather, of some of the clients that are ours. */
struct barrier_gather {
	int gather;
	uint32_t number, size;
	uint32_t todo, left; /* bits: ranks to come; without an answer */
	uint64_t latest; /* the last who came began then */
};

struct request {
	enum request_kind kind;
	uint32_t number;
	uint64_t began;
	uint64_t sent;       /* the last time */
	uint32_t timeout_ms; /* a WAIT's; in PyTorch's protocol our own */
	int canceled;        /* that WAIT was cancelled */
	uint32_t n, keys[REQUEST_KEYS];
	struct value a[REQUEST_KEYS], b;
	int64_t delta;
	struct barrier_gather *meeting;
};

/* What all draw from, and know of the keys. */
struct fuzz {
	uint64_t dice[CLIENTS];
	struct buf seen[KEYS]; /* the last value that somebody saw */
	uint32_t flag;         /* now waited for */
	uint32_t requests;
	int queued[QUEUES];    /* approximately */
	int wants_bytes;       /* the journal is to become long */
};

uint32_t roll(uint64_t *dice, uint32_t sides);
void key_name(uint32_t key, struct buf *out);

/* Draws one, and puts its bytes into p->out. */
void request_draw(struct request *r, struct fuzz *f, struct peer *p);
/* The same of a meeting's. */
void request_meet(struct request *r, struct fuzz *f, struct peer *p,
		  struct barrier_gather *m);
/* A client waits in PyTorch's protocol, and gives up. */
void request_cancel(struct request *r, struct peer *p);

/* Looks at p->in: 1 and *n acts, the answer is taken out of it; 0: more must
 * arrive; -1: it is not an answer, and why says so. The acts' times are the
 * caller's. */
int request_answered(const struct request *r, struct fuzz *f, struct peer *p,
		     struct act *acts, uint32_t *n, char why[512]);
/* Without an answer: what may have happened. How many acts. */
uint32_t request_lost(const struct request *r, struct act *acts);

#endif

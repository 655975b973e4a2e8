/* session.h: what one worker asks of its round's store and of its peers' fate,
 * and what it still waits for. Our codec on the store: frames in, replies out.
 * Knows nothing of how a job is run. */
#ifndef RENDEZVOUS_SESSION_H
#define RENDEZVOUS_SESSION_H

#include "rendezvous/journal/reply_cache.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/round/job.h"
#include "rendezvous/store/store.h"

struct wait_text;
struct session;

/* How long somebody has waited, and what was said of it. */
struct waited {
	uint64_t since, again; /* loop time; again 0: nothing was said yet */
	uint64_t hash;
};

/* A request that waits; a store waiter or a fate, as its type says. */
struct parked {
	struct store_waiter waiter;
	struct job_fate fate;
	struct session *session;
	struct parked *next, **pprev;
	enum wire_type type;
	uint32_t id;
	uint32_t rank; /* of a FATE */
	uint64_t due;
	struct waited waited;
};

struct session {
	struct conn *conn;
	struct store *store; /* of its round */
	struct job *job;
	uint32_t rank;
	uint64_t id;         /* said by the worker; 0: it never comes again */
	struct reply_cache *replies; /* of its round */
	struct cached_reply *reply;  /* its own; NULL: it has no id */
	struct parked *parked; /* requests without an answer yet */
	uint32_t nparked;
	/* Says whom a parked request waits for; NULL: a worker's who asks
	 * nothing yet. owner is explain's. */
	void (*explain)(const struct parked *p, struct wait_text *a);
	/* Until when a FATE that is due waits on; NULL: it does not. */
	uint64_t (*fate_due)(const struct parked *p);
	void *owner;
};

enum { SESSION_PARKED_MAX = 1024 };

/* Is this type a store request or FATE? */
int session_takes(enum wire_type type);
/* Answers the request or parks it. ERR_PROTOCOL: the body does not parse. Call
 * store_answer_all after it. */
int session_request(struct session *s, const struct wire_frame *f,
		    struct err *e);
/* A request that changed the store once, from a journal: changes it again, and
 * answers nobody. ERR_PROTOCOL: it is none. */
int session_replay(struct session *s, const struct wire_frame *f,
		   struct err *e);
/* Answers the FATE that f is part of. */
void session_tell_fate(struct job_fate *f, const char *text);
/* Answers what is due by now (loop time) and sets conn_due for the rest. */
void session_on_due(struct session *s);
/* Answers everything parked with an error. */
void session_abort(struct session *s, int code, const char *text);
/* The worker is gone: drops everything parked. */
void session_release(struct session *s);

#endif

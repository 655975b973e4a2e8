/* session.h: a worker's requests to its round's store, and for the fate of
 * other ranks: our codec on the store, frames in, replies out. Owns the
 * requests that wait. Knows nothing of how a job is run. */
#ifndef RENDEZVOUS_SESSION_H
#define RENDEZVOUS_SESSION_H

#include "rendezvous/journal/reply_cache.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/round/job.h"
#include "rendezvous/store/store.h"

struct wait_text;
struct session;

/* How long a peer has waited, and the last report of it. */
struct waited {
	uint64_t since, again; /* loop time; again 0: no report yet */
	uint64_t hash;
};

/* A waiting request; its type says whether waiter or fate is used. */
struct parked {
	struct store_waiter waiter;
	struct job_fate fate;
	struct session *session;
	struct parked *next, **pprev;
	enum wire_type type;
	uint32_t id;
	uint32_t rank; /* a FATE's */
	uint64_t due;
	struct waited waited;
};

struct session {
	struct conn *conn;
	struct store *store; /* its round's */
	struct job *job;
	uint32_t rank;
	uint64_t id;         /* from the worker; 0: it never reconnects */
	struct reply_cache *replies; /* its round's */
	struct cached_reply *reply;  /* its own; NULL: it has no id */
	struct parked *parked; /* waiting requests */
	uint32_t nparked;
	/* Puts what a parked request waits for; or NULL. */
	void (*explain)(const struct parked *p, struct wait_text *a);
	/* How long a FATE that has timed out waits further; or NULL. */
	uint64_t (*fate_due)(const struct parked *p);
	void *owner;
};

enum { SESSION_PARKED_MAX = 1024 };

/* Whether this type is a store request or FATE. */
int session_takes(enum wire_type type);
/* Replies to the request or parks it. ERR_PROTOCOL: the body does not parse.
 * Call store_answer_all after it. */
int session_request(struct session *s, const struct wire_frame *f,
		    struct err *e);
/* Repeats a change of the store from a journal, without a reply. ERR_PROTOCOL:
 * it is not such a request. */
int session_replay(struct session *s, const struct wire_frame *f,
		   struct err *e);
/* Answers the FATE that f is part of. */
void session_send_fate(struct job_fate *f, const char *text);
/* Replies to requests that have timed out, and sets conn_due for the rest. */
void session_on_due(struct session *s);
/* Replies to all parked requests with an error. */
void session_abort(struct session *s, int code, const char *text);
/* The worker is gone: drops its parked requests. */
void session_release(struct session *s);

#endif

/* peer.h: a client's connection as the server sees it: an agent (perhaps with a
 * node of a job), a worker of a round, or a tool. The server owns all peers; a
 * job and its round refer to theirs. */
#ifndef RENDEZVOUS_PEER_H
#define RENDEZVOUS_PEER_H

#include "rendezvous/journal/reply_cache.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/round/job.h"
#include "rendezvous/store/store.h"
#include "rendezvous/torch/addr_book.h"

/* ---- session.c ----
 *
 * A worker's requests to its round's store, and for the fate of other ranks:
 * our codec on the store, frames in, replies out. Owns the requests that wait.
 * Knows nothing of how a job is run. */

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

/* ---- peer.c ---- */

struct hosted_job;
struct munge_check;
struct peer;
struct server;
struct standby_hello;

/* A peer before its proof. */
struct applicant {
	struct peer *next, *previous;
	int is_listed; /* in the server's list of applicants */
	uint64_t came_ms, network;
	char greeting[WIRE_GREETING_SIZE];
	struct munge_check *check;   /* munge is checking its credential */
	struct standby_hello *waits; /* until the job's server is known */
};

struct peer {
	struct conn conn; /* first: the connection's callbacks get it */
	int role;	  /* 0 before its proof, then an enum wire_role */
	int has_left;	  /* without an agent: its end is recorded */
	struct hosted_job *hosted;
	struct session session; /* a worker's */
	struct server *server;
	struct peer *next, **pprev;		  /* in the server's list */
	/* in the round's list of workers */
	struct peer *worker_next, **worker_pprev;
	struct applicant applicant;		  /* while role is 0 */
	char *job_id;
	char *host; /* an agent's, or that of a worker without one; may be
		     * NULL */
	struct waited waited;	 /* an agent's; since 0: it does not wait */
	struct waited torch;	 /* that of its node's clients of PyTorch's
				  * store */
	struct job_node *node;	 /* for an agent that has joined */
	struct addr_owner addrs; /* an agent's: the addresses of its host */
	struct buf gpus;   /* an agent's: the items of its last GPUS */
	uint32_t ngpus;
	uint64_t lease_ms; /* an agent's: silence after which it is lost */
	int is_refused;	   /* the server is full: its HELLO is refused for that
			    * reason */
	int is_suspect;	   /* its lease has ended; read once more, then lost */
	uint64_t close_at; /* a moment after END; 0: not yet */
};

static inline struct peer *peer_of(struct conn *c)
{
	return (struct peer *)c;
}

/* The peer's node may be silent for its lease, and so may its workers: raises
 * the limit for silent connections. */
void peer_extend_lease(struct peer *p);
/* The peer's connection is gone: takes it out of its job and round, which are
 * notified with `why` ("lost: ..."). */
void peer_lose(struct peer *p, const char *why);

#endif

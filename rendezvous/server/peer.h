/* peer.h: a client's connection as the server sees it: an agent (perhaps with a
 * node of a job), a worker of a round, or a tool. The server owns all peers; a
 * job and its round refer to theirs. */
#ifndef RENDEZVOUS_PEER_H
#define RENDEZVOUS_PEER_H

#include "rendezvous/net/conn.h"
#include "rendezvous/server/session.h"
#include "rendezvous/torch/addr_book.h"

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

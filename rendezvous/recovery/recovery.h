/* recovery.h: starts a server from a journal: replays it to restore its jobs,
 * and waits for their nodes to come back (resume.c). Replay applies the same
 * events to the same code as the first time (job_event_take), but notifies
 * nobody. */
#ifndef RENDEZVOUS_RECOVERY_H
#define RENDEZVOUS_RECOVERY_H

#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/server.h"

struct journal_etcd;

/* Opens the journal at path, or in fd, replays it, and records from then on.
 * 0, or an error that names the journal; a journal that cannot be written to is
 * only logged. */
int recovery_start(struct server *s, const char *path, int fd, struct err *e);
/* The same from etcd, which has loaded the journal. 1: there was one, and a
 * snapshot is being written; 0: there was none. */
int recovery_start_in_etcd(struct server *s, struct journal_etcd *journal,
			   struct err *e);
/* Only replays it. 1: there is a job, and all are over. */
int recovery_is_over_in_etcd(struct server *s, struct journal_etcd *journal);
/* From now on, nodes that do not come back in time are lost. */
void recovery_serve(struct server *s);
/* Forgets all jobs, which no peer is in yet; the journal stays as it is. */
void recovery_forget(struct server *s);

/* ---- resume.c ----
 *
 * Handles agents that reconnect (RESUME), to a restarted server, or to a
 * server that has not noticed the loss yet: finds their node and sends what
 * they have missed. Waits a limited time for the nodes of a replayed journal
 * and for those whose connection was reset. */

enum {
	RESUME_RESET_MS = 3000, /* at most; and no longer than the lease */
	RESUME_LOST_MAX = 64,   /* lost nodes that a job remembers */
};

/* A node that was lost, and why. */
struct lost_node {
	struct lost_node *next; /* lost before this one */
	char *id;
	char why[];
};

/* RESUME. */
int resume_take(struct peer *p, const struct wire_frame *f, struct err *e);
/* The job was restored from a journal: its nodes are away, and those that do
 * not come back in time are lost. */
void resume_expect(struct hosted_job *h);
/* The agent's connection was reset, perhaps by a firewall, and the agent may
 * live. 1: its node is away, and lost if it does not come back in time. 0: it
 * is not waited for. */
int resume_await(struct peer *p, const char *why);
/* The node is about to be lost: remembers why, for an agent that comes late. */
void resume_lost(struct hosted_job *h, const struct job_node *n,
		 const char *why);
/* The same for a node that is gone already. */
void resume_remember(struct hosted_job *h, struct slice id, const char *why);
/* The job is being freed. */
void resume_release(struct hosted_job *h);

/* ---- journal_replay.c and journal_snapshot.c: private to this room ---- */

struct journal_replay {
	struct server *server;
	uint64_t unknown_job; /* the last unknown job number, logged once */
	struct err why;	      /* why replay failed; code 0: it did not */
};

/* Replays a batch. A record that makes no sense costs its job, which ends with
 * the reason. < 0, with why set: it costs all jobs, because memory is short or
 * the batch is not a list of records. */
int journal_replay_batch(void *replay, struct slice batch);

/* journal_writer_owner.snapshot: the server's whole state as records. */
int journal_snapshot_make(void *server, struct snapshot *s);

#endif

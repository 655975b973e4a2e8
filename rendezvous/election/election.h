/* election.h: elects one of several ddprdzvs of a job as the leader. The leader
 * holds a key in etcd with its address, bound to a lease that it renews. The
 * others know its address, and stand again when the key is gone. Knows nothing
 * of what a server does. Keys, all below /ddprun/JOB/: `server`, and those of
 * journal_etcd.h. */
#ifndef RENDEZVOUS_ELECTION_H
#define RENDEZVOUS_ELECTION_H

#include "etcd/etcd.h"

struct election;

struct election_options {
	const char *job;
	const char *address; /* where clients reach us, "10.0.0.1:4711" */
	/* The id of our lease: the same for each process of an agent, as is the
	 * address, so that a process that replaces a dead one leads at once. */
	int64_t lease;
	uint32_t ttl_s;	    /* how long the others wait after our death */
	uint64_t within_ms; /* etcd's time to reply: it may be electing as
			     * well */
};

struct election_events {
	/* Another process leads, at that address. Called at each change. */
	void (*on_other)(void *owner, const char *address);
	/* There is no leader now; another event follows. */
	void (*on_none)(void *owner);
	/* We lead since that revision: our writes must depend on the key having
	 * it (election_key, etcd_txn_if_modified). */
	void (*on_won)(void *owner, int64_t revision);
	/* The lease was renewed: election_is_sure may be true again. */
	void (*on_longer)(void *owner);
	/* We lead no more, or etcd cannot be reached, and why. Called once, as
	 * the last event. */
	void (*on_lost)(void *owner, const struct err *why);
};

/* Strings are copied; etcd is borrowed. -ENOMEM. */
int election_start(struct election **out, struct etcd *etcd, uv_loop_t *loop,
		   const struct election_options *options,
		   const struct election_events *events, void *owner,
		   struct err *e);
/* "/ddprun/JOB/server" */
struct slice election_key(const struct election *c);
/* We lead, and by our own clock no other process can at this moment. It may be
 * 0 for a while, until on_longer or on_lost. */
int election_is_sure(const struct election *c);
/* Revokes the lease, so that the key is removed at once. Calls done when etcd
 * has confirmed it or the lease has ended; at once if we do not lead. */
void election_resign(struct election *c, void (*done)(void *owner));
/* Stops without resigning. The memory is freed from the loop. */
void election_close(struct election *c);

/* ---- etcd_cleanup.c ----
 *
 * Watches the removal of a job that is over from etcd: its leader writes
 * /ddprun/JOB/ended (journal_etcd.h) and then removes all keys. A process that
 * leaves the job waits for that; if the leader has died, it stands for
 * election and removes them. Only reports the state. */

struct etcd_cleanup;

enum etcd_cleanup_state {
	ETCD_CLEANUP_NONE,    /* the job continues, or is removed */
	ETCD_CLEANUP_THERE,   /* it is over and not removed yet */
	ETCD_CLEANUP_UNKNOWN, /* etcd did not answer, or it took too long */
};

/* Calls on_known as soon as the state is known; after ETCD_CLEANUP_THERE once
 * more, when it has changed or after twice the ttl and a few seconds.
 * etcd_cleanup_close may be called in it. etcd is borrowed. -ENOMEM. */
int etcd_cleanup_watch(struct etcd_cleanup **out, struct etcd *etcd,
		       uv_loop_t *loop, const char *job, uint32_t ttl_s,
		       void (*on_known)(void *owner,
					enum etcd_cleanup_state how),
		       void *owner, struct err *e);
/* NULL is fine. The memory is freed from the loop. Do not call it in a watch's
 * callback. */
void etcd_cleanup_close(struct etcd_cleanup *r);

#endif

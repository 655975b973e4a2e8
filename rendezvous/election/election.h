/* election.h: one of several ddprdzvs of a job, of which etcd lets only one at
 * a time be its server: that one has a key with its address, bound to a lease
 * that it keeps alive. The others know where it is, and follow it when the key
 * goes. Knows nothing of what a server does.
 * Keys, all below /ddprun/JOB/: `server`, and what journal_etcd.h keeps. */
#ifndef RENDEZVOUS_ELECTION_H
#define RENDEZVOUS_ELECTION_H

#include "etcd/etcd.h"

struct election;

struct election_options {
	const char *job;
	const char *address; /* where clients would reach us, "10.0.0.1:4711" */
	/* Of our lease: the same for each process of one agent, as the address
	 * is, so that one which replaces one that died is the server at once
	 * and need not wait for the lease to end. */
	int64_t lease;
	uint32_t ttl_s;	    /* after our death the others wait so long */
	uint64_t within_ms; /* for etcd to answer: it may be electing, too */
};

struct election_events {
	/* The job's server is at that address; not we. Each time it changes. */
	void (*on_other)(void *owner, const char *address);
	/* Nobody is, by now; one of these follows. */
	void (*on_none)(void *owner);
	/* We are, since that revision: each write of ours holds only while the
	 * key is of it (election_key, etcd_txn_if_modified). */
	void (*on_won)(void *owner, int64_t revision);
	/* The lease runs on: election_is_sure again, perhaps. */
	void (*on_longer)(void *owner);
	/* We are not any more, or etcd cannot be reached, and why. Called
	 * once: nothing else comes after it. */
	void (*on_lost)(void *owner, const struct err *why);
};

/* Strings are copied; etcd is borrowed. -ENOMEM. */
int election_start(struct election **out, struct etcd *etcd, uv_loop_t *loop,
		   const struct election_options *options,
		   const struct election_events *events, void *owner,
		   struct err *e);
/* "/ddprun/JOB/server" */
struct slice election_key(const struct election *c);
/* We are it, by our own clock too: nobody else can be, at this moment. It may
 * be 0 for a while, until on_longer or on_lost. */
int election_is_sure(const struct election *c);
/* Gives the lease back, so that the key goes at once; done when etcd said so,
 * or the lease is over anyhow; at once while it is another's. */
void election_resign(struct election *c, void (*done)(void *owner));
/* Stops without a word. The memory goes from the loop. */
void election_close(struct election *c);

#endif

/* leadership.h: decides through etcd whether this process is its job's server:
 * it stands for election, and the winner reads the journal and serves. Owns the
 * election and the journal's connection to etcd. Its owner interprets the
 * journal and talks to clients. A leader that loses its place ends the process:
 * see leadership_fail. */
#ifndef RENDEZVOUS_LEADERSHIP_H
#define RENDEZVOUS_LEADERSHIP_H

#include "base/loop.h"
#include "etcd/etcd.h"

struct journal_etcd;
struct leadership;

struct leadership_options {
	struct etcd_options etcd;
	const char *job;     /* these two outlive the leadership */
	const char *address; /* where clients reach us */
	int64_t lease;	/* same for each process of an agent; also uses + 1 */
	uint32_t ttl_s; /* how long the others wait after our death */
	uint32_t keep_s; /* how long the job is kept without a server */
	int is_quiet;	 /* ddprun reports what happens, not we */
};

/* The leader's recent contact with its nodes. */
struct leadership_view {
	uint32_t nodes;	      /* connected nodes */
	uint32_t heard;	      /* heard from within a third of their lease */
	uint64_t longest_ms;  /* the longest such third */
	uint64_t leases_lost; /* since the start */
};

struct leadership_events {
	/* Another leader is known, or etcd refuses: clients that wait can be
	 * answered. */
	void (*on_known)(void *owner);
	/* We won and the journal is loaded. 1: it is replayed, and a snapshot
	 * is under way; 0: there was nothing. */
	int (*load)(void *owner, struct journal_etcd *journal, struct err *e);
	/* After load: agrees on the job's key. < 0: lets another lead
	 * instead. */
	int (*agree_key)(void *owner, struct err *e);
	/* We lead from now on. forget: drop what was replayed. */
	void (*serve)(void *owner);
	void (*forget)(void *owner);
	/* etcd has kept what was written, or the lease was renewed. */
	void (*on_kept)(void *owner);
	/* While leaving: 0: everything is kept; 1: it is about to be. */
	int (*settle)(void *owner);
	/* Replays the loaded journal only. 1: the job is over. */
	int (*is_over)(void *owner, struct journal_etcd *journal);
	/* Fills in v; heard counts nodes since `since` only. */
	void (*query)(void *owner, uint64_t since, struct leadership_view *v);
	/* The leadership is being freed. */
	void (*on_close)(void *owner);
};

enum {
	LEADERSHIP_EXIT_LOST = 75, /* EX_TEMPFAIL: start it again */
	LEADERSHIP_EXIT_CUT_OFF,   /* the same, and no other node is heard
				    * from */
};

/* Sets *out before the first event. ERR_USAGE, ERR_SYSTEM. */
int leadership_open(struct leadership **out, uv_loop_t *loop,
		    const struct leadership_options *o,
		    const struct leadership_events *events, void *owner,
		    struct err *e);

/* 0: this is the server; ERR_MOVED with its address, or ERR_NOT_YET or
 * ERR_NO_ETCD with the reason. */
int leadership_check(const struct leadership *l, struct err *e);
/* leadership_check's result will last: waiting does not help. */
int leadership_is_known(const struct leadership *l);
/* We lead, and no other process can at this moment. */
int leadership_is_sure(const struct leadership *l);

/* The server ends. Resigns once the journal is kept; with over, removes the
 * whole job from etcd. A process that does not lead waits, if the job is over,
 * until the job is removed, and removes it if the leader is gone. Then closes
 * and calls left, perhaps at once. Further calls do nothing. */
void leadership_leave(struct leadership *l, int over,
		      void (*left)(void *owner));
/* We cannot continue as the leader: ends the process with the reason, as soon
 * as it is known whether this host is cut off. */
void leadership_fail(struct leadership *l, const struct err *why);
/* Closes at once and notifies nobody. NULL is fine. */
void leadership_close(struct leadership *l);

#endif

/* job.h: a job and its rounds, one after another: who is in it, which ranks
 * they get, when a round starts, how it ends and why. Pure: what happened goes
 * in, what must be told to whom comes out as actions. No sockets, no clock. */
#ifndef RENDEZVOUS_JOB_H
#define RENDEZVOUS_JOB_H

#include <stdio.h>

#include "base/error.h"
#include "rendezvous/wire.h"

struct job;
struct job_node;

enum job_state {
	JOB_GATHERING,  /* the first round's nodes are coming */
	JOB_RUNNING,    /* a round runs */
	JOB_RESTARTING, /* a round is over; the nodes are coming back */
	JOB_OVER,       /* ended for good; the nodes are going */
	JOB_STATES
};

enum job_event {
	JOB_ON_JOIN,
	JOB_ON_EXITED,
	JOB_ON_FAILED,
	JOB_ON_LEAVE,
	JOB_ON_TOLD, /* to stop */
	JOB_ON_LOST,
	JOB_ON_LAST_CALL, /* it has been out for its time */
	JOB_ON_STOP, /* the server stops */
	JOB_EVENTS
};

/* A request to be told what became of a rank; the caller's memory. */
struct job_fate {
	void *owner;
	struct job_fate *next, **pprev;
};

/* What the caller has to do, in order, before the next event. */
struct job_action {
	enum {
		JOB_TELL_STATE, /* job_state_for to each that waits, soon */
		JOB_TELL_START, /* job_start_for to each that runs, now */
		JOB_RANK_LEFT,  /* rank is gone; text says how */
		JOB_FATE_KNOWN, /* answer fate with text */
		JOB_TELL_STOP,  /* job_stop_for to all, now */
		JOB_TELL_END,   /* job_end_for each; the keyspace is over */
		JOB_LAST_CALL,  /* job_last_call in ms, if no OFF or START */
		JOB_LAST_CALL_OFF,
		JOB_CANNOT_START, /* for want of memory: stop it */
	} kind;
	uint32_t rank; /* of RANK_LEFT; of LAST_CALL: ms */
	const char *text; /* valid until the next event */
	struct job_fate *fate;
};

/* first_round: the number of its first round, higher than those of an earlier
 * job of that name. NULL when memory ran out. */
struct job *job_new(struct slice id, uint32_t first_round);
void job_free(struct job *j); /* no fates may be parked in it */

/* All of a job that it needs to go on, but what is still to do: no action may
 * be left. Its nodes have no owners in the copy, and nobody waits for a fate.
 * NULL: torn, or out of memory. */
void job_save(const struct job *j, struct buf *out);
struct job *job_load(struct slice bytes);

/* ---- what happens ---- */

/* owner: who this node is to the caller; a node that joins again (RESTARTING)
 * has the same. at: where it reached the server, for people. 0 and *node, or a
 * refusal: ERR_REFUSED or ERR_ARGUMENT with a text for that node's user. Beyond
 * max_nodes it is a spare, which takes the place of a member that goes. */
int job_join(struct job *j, const struct wire_join *m, void *owner,
	     const char *at, struct job_node **node, struct err *e);
/* ERR_PROTOCOL if the rank is not that node's. Another round's is ignored.
 * -ENOMEM: job_lost_action. */
int job_exited(struct job *j, struct job_node *n, const struct wire_exited *m,
	       struct err *e);
/* That rank of a world of guests has gone; nobody says with which code, so the
 * round goes on without it. text: "rank 3 on h1 said that it leaves". */
void job_guest_left(struct job *j, struct job_node *n, uint32_t rank,
		    const char *text);
void job_failed(struct job *j, struct job_node *n, const struct wire_failed *m);
void job_leave(struct job *j, struct job_node *n, const struct wire_leave *m);
/* The node was told that it, or the job, is to stop. */
void job_request_stop(struct job *j, struct job_node *n,
		      const struct wire_stop *m);
/* The node's connection is gone ("its connection closed", "it was not heard
 * from for 5.0 s"). n is freed. */
void job_lost(struct job *j, struct job_node *n, const char *why);
/* What JOB_LAST_CALL said has passed: who has come by now is the round. */
void job_last_call(struct job *j);
/* The server stops: ends the job, if it is not over. */
void job_stop(struct job *j, const char *why);

/* The next thing to do, or NULL. Valid until the next call. */
const struct job_action *job_next_action(struct job *j);
/* 1: memory ran out and something to do was lost. Members would wait for it for
 * ever, so the process had better end. */
int job_lost_action(const struct job *j);

/* ---- what there is to know ---- */

enum job_state job_state(const struct job *j);
const char *job_id(const struct job *j);
/* The number of the running round, or of the next one. */
uint32_t job_round(const struct job *j);
uint32_t job_world_size(const struct job *j); /* of the running round */
uint32_t job_call_ms(const struct job *j); /* the last call's; 0: none is out */
int job_is_empty(const struct job *j);        /* no node is left in it */
/* What it holds of nodes that are gone, for those that come from their hosts;
 * of 256 of them at most. */
size_t job_gone_bytes(const struct job *j);
size_t job_nodes(const struct job *j); /* with those whose agent has gone */

/* Walks the nodes: first with NULL. */
struct job_node *job_next_node(const struct job *j, const struct job_node *n);
void *job_node_owner(const struct job_node *n);
/* Who it is to the caller changes: its agent has come back, or is not there. */
void job_node_own(struct job_node *n, void *owner);
struct job_node *job_find_node(const struct job *j, struct slice node_id);
struct slice job_node_id(const struct job_node *n);
/* How many notices it has sent since its last JOIN. */
uint32_t job_node_said(const struct job_node *n);
uint32_t job_node_lease(const struct job_node *n); /* as JOIN said; 0 too */
/* It is there for the next round, or in the running one. */
int job_node_joined(const struct job_node *n);
/* For a round to begin (STATE is for it), as a spare too. */
int job_node_waits(const struct job *j, const struct job_node *n);
int job_node_is_spare(const struct job_node *n);
int job_node_has_left(const struct job_node *n);
int32_t job_node_rank(const struct job_node *n); /* -1: none yet */
const char *job_node_host(const struct job_node *n);
int job_node_hosts(const struct job_node *n); /* its agent started the server */
int job_node_runs(const struct job_node *n); /* is in the running round */
/* No other node is in its job, which needs no other, and the server ends with
 * it: nobody waits for it in vain. */
int job_node_is_alone(const struct job *j, const struct job_node *n);

/* What it knows itself of JOB and of its node's item; the rest is 0. */
void job_status(const struct job *j, struct wire_job *m);
void job_node_status(const struct job *j, const struct job_node *n,
		     struct wire_job_node *item);

/* Messages; slices are the job's, valid until the next event. STATE's `spare`
 * differs from node to node and is 0 here; last_call_ms is the whole time. */
void job_state_for(struct job *j, struct wire_state *m);
/* Where PyTorch's clients look for the store of the round that begins, which
 * this server can be for them: MASTER_ADDR, as it is on the server's own host.
 * NULL: it cannot, or is not to be. */
const char *job_agent_store_addr(const struct job *j);
int job_store_open(const struct job *j); /* without vouchers */
void job_start_for(const struct job *j, const struct job_node *n,
		   struct wire_start *m);
/* To all nodes, spares, too, but those that have left. */
int job_stop_for(const struct job *j, const struct job_node *n,
		 struct wire_stop *m);
/* 1 and the END for n, or 0: it is not for n (a spare, while the job goes on;
 * one that has joined for the next round). To one that left, what is a REGROUP
 * to the others is the end. */
int job_end_for(const struct job *j, const struct job_node *n,
		struct wire_end *m);
/* The last END; its text is never empty for a round that is over. */
const struct wire_end *job_end(const struct job *j);
/* How a rank of the running round ended; NULL: it runs. */
const char *job_rank_end(const struct job *j, uint32_t rank);
/* The same without who it was: "exited with code 0". */
const char *job_rank_how(const struct job *j, uint32_t rank);
const char *job_rank_host(const struct job *j, uint32_t rank); /* or NULL */
void *job_rank_owner(const struct job *j, uint32_t rank); /* of its node */
/* Why a worker of `round` cannot be served now: ERR_ABORTED with text. 0: it
 * is the running round. */
int job_check_round(const struct job *j, uint32_t round, struct err *e);

/* 0 and *text, if it is known what became of the rank, else 1 and f is parked
 * until JOB_FATE_KNOWN. ERR_ARGUMENT: no such rank. */
int job_fate(struct job *j, uint32_t rank, struct job_fate *f,
	     const char **text, struct err *e);
void job_fate_release(struct job_fate *f); /* not parked: fine */

/* ---- the policy, printed: one line for each state and event ---- */
const char *job_state_name(enum job_state s);
const char *job_event_name(enum job_event ev);
const char *job_policy(enum job_state s, enum job_event ev);

#endif

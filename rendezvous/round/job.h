/* job.h: a job and its rounds, one after another: its nodes, their ranks, when
 * a round starts, how it ends and why. Pure: events go in, and actions
 * (messages to send) come out. No sockets, no clock. */
#ifndef RENDEZVOUS_JOB_H
#define RENDEZVOUS_JOB_H

#include "base/error.h"
#include "rendezvous/wire.h"

struct job;
struct job_node;

enum job_state {
	JOB_GATHERING,  /* nodes join the first round */
	JOB_RUNNING,    /* a round runs */
	JOB_RESTARTING, /* a round is over; nodes join the next one */
	JOB_OVER,       /* ended for good; the nodes leave */
	JOB_STATES
};

enum job_event {
	JOB_ON_JOIN,
	JOB_ON_EXITED,
	JOB_ON_FAILED,
	JOB_ON_LEAVE,
	JOB_ON_TOLD, /* asked to stop */
	JOB_ON_LOST,
	JOB_ON_LAST_CALL, /* the last call is over */
	JOB_ON_STOP, /* the server stops */
	JOB_EVENTS
};

/* A request for the fate of a rank; the caller's memory. */
struct job_fate {
	void *owner;
	struct job_fate *next, **pprev;
};

/* An action that the caller carries out, in order, before the next event. */
struct job_action {
	enum {
		JOB_TELL_STATE, /* send job_state_for to waiting nodes, soon */
		JOB_TELL_START, /* send job_start_for to running nodes */
		JOB_RANK_LEFT,  /* the rank is gone; text tells how */
		JOB_FATE_KNOWN, /* answer fate with text */
		JOB_TELL_STOP,  /* send job_stop_for to all */
		JOB_TELL_END,   /* send job_end_for to all; drop the store */
		JOB_LAST_CALL,  /* call job_last_call in `rank` ms, unless OFF
				 * or START comes first */
		JOB_LAST_CALL_OFF,
		JOB_CANNOT_START, /* out of memory: stop the job */
	} kind;
	uint32_t rank; /* RANK_LEFT's; LAST_CALL: ms */
	const char *text; /* valid until the next event */
	struct job_fate *fate;
};

/* first_round: the number of its first round, higher than those of an earlier
 * job of that name. NULL: out of memory. */
struct job *job_new(struct slice id, uint32_t first_round);
void job_free(struct job *j); /* no fate may be parked in it */

/* Saves everything that a job needs to continue; no action may be pending. The
 * copy's nodes have no owners, and no fate is parked in it. NULL: the bytes are
 * torn, or out of memory. */
void job_save(const struct job *j, struct buf *out);
struct job *job_load(struct slice bytes);

/* ---- events ---- */

/* owner: the caller's handle for the node; a node that rejoins (RESTARTING) has
 * the same. at: the server's address, for messages. 0 and *node, or ERR_REFUSED
 * or ERR_ARGUMENT with a text for that node's user. A node beyond max_nodes is
 * a spare, which replaces a member that leaves. */
int job_join(struct job *j, const struct wire_join *m, void *owner,
	     const char *at, struct job_node **node, struct err *e);
/* ERR_PROTOCOL if the rank is not that node's. Exits of another round are
 * ignored. -ENOMEM: see job_lost_action. */
int job_exited(struct job *j, struct job_node *n, const struct wire_exited *m,
	       struct err *e);
/* A rank of a job without agents is gone. Its exit code is unknown, so the
 * round continues without it. text: "rank 3 on h1 left with ddp_finalize". */
void job_guest_left(struct job *j, struct job_node *n, uint32_t rank,
		    const char *text);
void job_failed(struct job *j, struct job_node *n, const struct wire_failed *m);
void job_leave(struct job *j, struct job_node *n, const struct wire_leave *m);
/* The node was asked to stop, or to stop the job. */
void job_request_stop(struct job *j, struct job_node *n,
		      const struct wire_stop *m);
/* The node's connection is gone ("its connection closed", "it was not heard
 * from for 5.0 s"). n is freed. */
void job_lost(struct job *j, struct job_node *n, const char *why);
/* The time of JOB_LAST_CALL is over: the nodes that have joined are the round.
 */
void job_last_call(struct job *j);
/* The server stops: ends the job, if it is not over. */
void job_stop(struct job *j, const char *why);

/* The next action, or NULL. Valid until the next call. */
const struct job_action *job_next_action(struct job *j);
/* 1: an action was lost for lack of memory. Nodes would wait for it for ever,
 * so the process should end. */
int job_lost_action(const struct job *j);

/* ---- queries ---- */

enum job_state job_state(const struct job *j);
const char *job_id(const struct job *j);
/* The number of the running round, or of the next one. */
uint32_t job_round(const struct job *j);
uint32_t job_world_size(const struct job *j); /* the running round's */
uint32_t job_call_ms(const struct job *j); /* the last call's; 0: none */
int job_is_empty(const struct job *j);     /* it has no nodes */
/* The memory used to remember ranks of nodes that are gone, at most 256. A node
 * from the same host gets such a rank. */
size_t job_gone_bytes(const struct job *j);
size_t job_nodes(const struct job *j); /* including those without agent */

/* Walks the nodes: first with NULL. */
struct job_node *job_next_node(const struct job *j, const struct job_node *n);
void *job_node_owner(const struct job_node *n);
/* Changes the owner: its agent has come back, or is gone (NULL). */
void job_node_own(struct job_node *n, void *owner);
struct job_node *job_find_node(const struct job *j, struct slice node_id);
struct slice job_node_id(const struct job_node *n);
/* The number of notices that it has sent since its last JOIN. */
uint32_t job_node_notices(const struct job_node *n);
uint32_t job_node_lease(const struct job_node *n); /* from JOIN; may be 0 */
/* Has joined the next round, or is in the running one. */
int job_node_joined(const struct job_node *n);
/* Waits for a round to begin (STATE is for it), or is a spare. */
int job_node_waits(const struct job *j, const struct job_node *n);
int job_node_is_spare(const struct job_node *n);
int job_node_has_left(const struct job_node *n);
int32_t job_node_rank(const struct job_node *n); /* -1: none yet */
const char *job_node_host(const struct job_node *n);
int job_node_hosts(const struct job_node *n); /* its agent started the server */
int job_node_runs(const struct job_node *n); /* is in the running round */
/* It is the only node of a job that needs no other, and the server ends with
 * it: no peer would wait for it. */
int job_node_is_alone(const struct job *j, const struct job_node *n);

/* Fills in what the job knows of JOB and of a node's item; the rest is 0. */
void job_status(const struct job *j, struct wire_job *m);
void job_node_status(const struct job *j, const struct job_node *n,
		     struct wire_job_node *item);

/* Fill in messages, whose slices are valid until the next event. STATE's
 * `spare` differs between nodes and is 0 here; last_call_ms is the whole
 * time. */
void job_state_for(struct job *j, struct wire_state *m);
/* MASTER_ADDR, where PyTorch's clients expect the store of the round that
 * begins; NULL unless that is on the server's own host and the server may be
 * the store. */
const char *job_agent_store_addr(const struct job *j);
int job_store_open(const struct job *j); /* to clients without vouchers */
void job_start_for(const struct job *j, const struct job_node *n,
		   struct wire_start *m);
/* STOP for n: for all nodes, including spares, that have not left. */
int job_stop_for(const struct job *j, const struct job_node *n,
		 struct wire_stop *m);
/* 1 and the END for n; or 0 if it is not for n (a spare while the job
 * continues, or a node that has joined the next round). For a node that left, a
 * REGROUP is the end of the job. */
int job_end_for(const struct job *j, const struct job_node *n,
		struct wire_end *m);
/* The last END; for a round that is over, its text is not empty. */
const struct wire_end *job_end(const struct job *j);
/* It ended because a rank hangs, whose stack is not in the END. */
int job_end_lacks_stack(const struct job *j);
/* How a rank of the running round ended; NULL: it runs. */
const char *job_rank_end(const struct job *j, uint32_t rank);
/* The same without the rank's name: "exited with code 0". */
const char *job_rank_how(const struct job *j, uint32_t rank);
const char *job_rank_host(const struct job *j, uint32_t rank); /* or NULL */
void *job_rank_owner(const struct job *j, uint32_t rank); /* its node's */
/* Why a worker of `round` cannot be served now: ERR_ABORTED with text. 0: it
 * is the running round. */
int job_check_round(const struct job *j, uint32_t round, struct err *e);

/* 0 and *text if the rank's fate is known; else 1, and f is parked until
 * JOB_FATE_KNOWN. ERR_ARGUMENT: no such rank. */
int job_fate(struct job *j, uint32_t rank, struct job_fate *f,
	     const char **text, struct err *e);
void job_fate_release(struct job_fate *f); /* not parked: fine */

/* ---- the policy as text: one line for each state and event, which
 * build/tests/model --tables prints ---- */
const char *job_state_name(enum job_state s);
const char *job_event_name(enum job_event ev);
const char *job_policy(enum job_state s, enum job_event ev);

#endif

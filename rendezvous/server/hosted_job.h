/* hosted_job.h: a job on this server: ties its round, store, journal and peers
 * together. Events of the job go in (job_event_take); hosted_job_act then turns
 * the actions that it wants into frames to its agents and answers to its
 * workers. Out of memory while acting ends the process. */
#ifndef RENDEZVOUS_HOSTED_JOB_H
#define RENDEZVOUS_HOSTED_JOB_H

#include <stddef.h>

#include "rendezvous/journal/reply_cache.h"
#include "rendezvous/round/job.h"
#include "rendezvous/server/peer.h"
#include "rendezvous/server/server.h"
#include "rendezvous/store/hash_table.h"
#include "rendezvous/store/store.h"
#include "rendezvous/torch/addr_book.h"
#include "rendezvous/torch/torch_port.h"

enum { VOUCHER_NAMED_MAX = 64 };

struct absent;
struct lost_node;
struct stall_report;

/* PyTorch's clients of a job, and the agents that vouch for them (voucher.h).
 * All zeroes at first. */
struct vouchers {
	struct addr_book book;
	struct hash_table open; /* struct voucher, by number */
	uint32_t last;		/* number */
	/* the server's addresses that agents connected to, so workers can */
	struct sock_addr ways[TORCH_ADDRS_MAX];
	int nways;
	struct sock_addr named[VOUCHER_NAMED_MAX]; /* logged, once each */
	uint32_t nnamed;
};

/* The END of a round waits for the stack of the rank that hangs, which that
 * rank's agent was asked for (LOOK). */
struct hang_look {
	const struct peer *agent; /* only compared; NULL: no END waits */
	uint32_t round, rank;
	uv_timer_t timer; /* then END is sent without the stack */
};

/* EXITEDs of workers that made different calls, that waited for a peer, or
 * whose peer closed its connections: which rank is the cause may be known when
 * other agents have reported (query.h, stall_report.c). */
enum { HELD_EXITS_MAX = 1 << 20 };

struct held_exits {
	struct buf frames; /* in order; at most that many bytes */
	uv_timer_t timer;  /* then they are applied */
	uint32_t asked;	   /* agents that have not answered LOOK */
	int for_peer;	   /* whose connections were closed: it may be ending */
};

struct hosted_job {
	struct hash_item item;	   /* first: by job id */
	struct hash_item numbered; /* by number */
	uint64_t number;	   /* in the journal */
	struct server *server;
	struct job *job;
	struct account *account; /* all memory that its clients use here */
	size_t gone_bytes; /* in it: what the job remembers of gone nodes */

	/* the running round */
	struct store *store;
	struct reply_cache replies;
	struct peer *workers;
	uint32_t nworkers;
	struct torch_port *torch; /* for PyTorch's clients; this round's or the
				   * last one's */
	uint16_t torch_port;	  /* 0: none */
	struct sock_addr torch_at[TORCH_ADDRS_MAX];
	int ntorch_at;
	struct vouchers vouchers;
	struct stall_report *stalls; /* stall_report.c; NULL at first */
	struct round_log *rounds; /* web/round_log.c; NULL: no page */

	struct job_node *agentless; /* the node of all workers without agents;
				     * NULL: the job has agents */
	uint64_t touched;	    /* the last event; loop time */
	uint64_t since; /* when its state, or its round, began; loop time */
	uv_timer_t state_timer; /* STATE is due */
	uint32_t states_sent;	/* the last time */
	int is_state_stale; /* more nodes have joined since the timer was set */
	uint64_t state_since;
	struct hang_look look;
	struct held_exits held;
	uv_timer_t call_timer;	/* the last call is over */
	uv_timer_t back_timer;	/* nodes that have not come back are lost */
	struct absent *absent;	/* these nodes; the first to be lost is first */
	struct lost_node *lost; /* recently lost nodes: if they come back they
				 * learn the reason */
	int is_named;		/* new nodes join it */
	int is_broken; /* by a record: the rest of its journal is ignored */
	int closing;   /* handles that are not closed yet */
};

/* The job of that name for a node to join, made if there is none. It may be
 * over, if no other will follow it. NULL: out of memory. */
struct hosted_job *hosted_job_for_join(struct server *s, struct slice id);
/* From a journal: takes the job. NULL: out of memory. */
struct hosted_job *hosted_job_restore(struct server *s, struct job *job,
				      uint64_t number, int is_named);
/* Makes the running round's store. 0 or -ENOMEM. */
int hosted_job_make_store(struct hosted_job *h);
/* Frees the job and all that is in it, and notifies nobody. */
void hosted_job_drop(struct hosted_job *h);
/* Frees the job if no node is in it any more, unless late nodes must still
 * learn how it ended. */
void hosted_job_free_if_empty(struct hosted_job *h);

/* Frees the round's keyspace, and closes the workers that used it. */
void hosted_job_end_round(struct hosted_job *h, const char *text);
/* Charges what the job remembers of gone nodes to its account. */
void hosted_job_count_gone(struct hosted_job *h);

/* ---- hosted_job_act.c ---- */

/* Carries out what the job wants; call it after each event. */
void hosted_job_act(struct hosted_job *h);
/* Sends START to the node, if it runs and its agent is connected. */
void hosted_job_send_start(struct hosted_job *h, const struct job_node *n);
/* Sends STATE to all waiting nodes, soon. */
void hosted_job_send_state(struct hosted_job *h);
/* STACK: if the END of the round waits for it, sends that END. ERR_PROTOCOL. */
int hosted_job_take_stack(struct peer *agent, const struct wire_frame *f,
			  struct err *e);
/* If an END waits for a stack, sends it without. */
void hosted_job_end_look(struct hosted_job *h);
/* Restarts the timer of a last call that was pending in the journal. */
void hosted_job_restart_last_call(struct hosted_job *h);

/* ---- clients ---- */

/* A worker's HELLO: takes it into the round, or returns why not. */
int hosted_job_admit_worker(struct peer *p, const struct wire_hello *hello,
			    struct err *e);
/* Walks over the round's connected workers: after NULL, until NULL. */
struct peer *hosted_job_next_worker(const struct hosted_job *h,
				    const struct peer *after);
/* Walks over the connected agents of the nodes that run, until NULL; *n is NULL
 * at first. */
struct peer *hosted_job_next_agent(const struct hosted_job *h,
				   struct job_node **n);

/* ---- the events of a job ----
 *
 * Each is applied and then recorded, so that a refused event
 * leaves nothing in the journal. Replay calls the same functions (and records
 * nothing), so that both reach the same state. Call hosted_job_act after
 * each. */

/* An agent's JOIN, EXITED, FAILED, LEAVE or STOP; any other frame is
 * ERR_PROTOCOL. *n is its node, which JOIN sets; owner is for JOIN. < 0:
 * nothing has changed or is recorded. */
int job_event_take(struct hosted_job *h, struct job_node **n, void *owner,
		   const struct wire_frame *f, struct err *e);
/* The node's agent is gone. n is freed. */
void job_event_lost(struct hosted_job *h, struct job_node *n, const char *why);
/* The last call is over. */
void job_event_called(struct hosted_job *h);
/* The server ends the job. */
void job_event_stopped(struct hosted_job *h, const char *why);

/* ---- a job without agents ----
 *
 * The one job of a server that rank 0 started for workers without agents
 * (--guests): a rank exists as long as its connection. The job runs like any
 * other; these functions know when ranks come and go. */

/* Starts the job, as s->agentless. */
int agentless_job_open(struct server *s, const char *job, uint32_t ranks,
		       struct err *e);
/* Whether this worker may join: 0; ERR_REFUSED; ERR_USAGE if another process
 * has the same rank. */
int agentless_job_check(const struct hosted_job *h,
			const struct wire_hello *hello, struct err *e);
/* A worker has joined: keepalive watches its connection for a dead host. */
void agentless_job_joined(struct peer *p, const struct wire_hello *hello);
/* A worker is gone, with or without a GOODBYE. */
void agentless_job_left(struct hosted_job *h, struct peer *p, const char *how);
/* All ranks have joined and left. */
int agentless_job_is_over(const struct hosted_job *h);
/* No worker is left: frees the job. */
void agentless_job_close(struct hosted_job *h);

#endif

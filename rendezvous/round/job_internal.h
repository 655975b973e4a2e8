/* job_internal.h: the data and functions that the files of this room share:
 * job.c (states and events), round_transition.c (starts and ends of rounds,
 * what follows from restarts), join.c (admission), assign.c (ranks),
 * end_cause.c (causes, and stops). Other rooms include job.h. */
#ifndef RENDEZVOUS_JOB_INTERNAL_H
#define RENDEZVOUS_JOB_INTERNAL_H

#include "rendezvous/round/job.h"
#include "rendezvous/store/hash_table.h"

enum {
	EXIT_START_FAILED = 66, /* sysexits: an input is missing */
	EXIT_NODE_LOST = 69,    /* a service is unavailable */
	EXIT_RANK_HANGS = 79,   /* sysexits end with 78 */
};

/* A node's place in its job. */
enum job_place {
	NODE_MEMBER, /* in the running round, or expected in the next */
	NODE_SPARE,  /* waits for a member's place */
	NODE_GONE,   /* has left; its connection is still open */
};

struct job_node {
	struct hash_item item; /* first: by node_id */
	struct job_node *next, **pprev; /* in order of joining */
	void *owner;
	char *node_id, *host, *addr, *role;
	unsigned char addr_key[17]; /* family and address, to sort by */
	uint16_t master_port;
	int hosts_server;
	int agent_store; /* its workers may have the server's store */
	int store_open;  /* to any client, without a voucher */
	uint32_t nproc;
	uint32_t seq; /* order of joining */
	enum job_place place;
	int joined;  /* a member that joined the next round, or runs */
	int running; /* has ranks in the running round */
	int gets_end; /* it gets the last END */
	int stands_in; /* it joined as a spare: its rank is not its own */
	int32_t home; /* its own rank; -1: none yet */
	int32_t rank; /* in its last round, or -1; equals home if that fitted */
	uint32_t base; /* the rank of its first worker */
	uint32_t role_base, role_world;
	uint32_t notices; /* notices since its JOIN */
	uint32_t lease_ms; /* from its JOIN */
	int has_steps;	   /* its workers have reported a step */
	/* How often it was the first node to fail at the start, since the last
	 * round that got further; and what follows from that. */
	uint32_t bad_starts;
	enum { NODE_GOOD, NODE_TO_SWAP, NODE_SWAPPED } swap;
};

/* A worker of the running round. */
struct job_rank {
	struct job_node *node;
	struct job_fate *fates;
	char *text; /* how it exited; NULL: it runs */
	int failed; /* its exit code is not 0, or a signal killed it */
	int left_out; /* likewise, but the job continues without it */
};

/* The rank of a node that is gone, kept for a node from the same host. */
struct job_memory {
	char *host; /* NULL: this entry is free */
	int32_t rank;
};

enum { MEMORIES = 256 };

/* A request to stop the job. */
struct job_stop_order {
	uint8_t level, cause; /* level 0: no request */
	int32_t signal;
	uint32_t grace_ms;
	char text[ERR_TEXT_MAX]; /* the highest level's */
	char first[ERR_TEXT_MAX]; /* the first request's: the job's end */
	int exit_code;
	uint32_t stopped, killed; /* ranks that ended as asked; of them, by a
				   * signal */
};

/* The steps that the workers reported, in all attempts; each number is that of
 * a step plus 1, and 0 means none. */
struct job_restarts {
	uint64_t best;	  /* the highest of all rounds before the last */
	uint64_t last;	  /* the highest of the last round, as far as known */
	uint32_t known;	  /* nodes of the last round that have reported
			   * theirs */
	uint32_t in_vain; /* successive restarts without a step beyond best */
	int has_swapped;  /* a node was swapped for the next round */
};

struct job {
	char *id;
	enum job_state state;
	/* first + attempt + changes == round, until the job is over */
	uint32_t round, attempt, changes;
	/* set by the first node; all later nodes must agree */
	char *first_host;
	uint32_t min_nodes, max_nodes, max_restarts, last_call_ms;
	uint32_t max_no_progress; /* restarts in a row; 0: no limit */
	uint32_t swap_after;	  /* failures at the start; 0: never */
	uint32_t backoff_ms;	  /* only compared */
	struct buf alike; /* likewise: wire.h's options */
	struct hash_table by_id;
	struct job_node *nodes, **nodes_tail;
	struct job_node **homes; /* [max_nodes]: the owner of each rank */
	uint32_t members, spares, seq;
	uint32_t joined; /* members that have joined */
	uint64_t nproc;  /* the joined nodes' workers */
	int calling;     /* the last call has begun */
	struct job_memory memory[MEMORIES];
	uint32_t next_memory;
	size_t memory_bytes; /* bytes of the host names in memory */
	/* the running round */
	struct job_node **order; /* nnodes of them, by node rank */
	uint32_t nnodes;
	struct job_rank *ranks;
	uint32_t world_size, exited;
	struct buf early; /* EXITED of the first worker that left early, else of
			   * the first that exited with 0; or empty */
	struct job_stop_order stop_order;
	struct job_restarts restarts;
	struct buf missing; /* STATE's text */
	/* the last END; its text is end_text, its other slices point into
	 * end_bytes */
	struct wire_end end;
	char end_text[ERR_TEXT_MAX], swap_text[ERR_TEXT_MAX];
	struct buf end_bytes;
	/* actions that the caller has not taken yet */
	struct job_action *actions;
	size_t nactions, actions_cap, next_action;
	int lost_action;
};

/* round_transition.c */
void transition_act(struct job *j, struct job_action a);
void transition_send_state(struct job *j);
void transition_send_fates(struct job *j, struct job_rank *r, const char *text);
/* Ends the round, or the job; j->end says why. Promotes spares. */
void transition_end(struct job *j);
/* Starts the round with all nodes that have joined. */
void transition_start(struct job *j);
/* Call after each change of the nodes while no round runs: starts the round, or
 * waits. */
void transition_start_or_wait(struct job *j);
/* Removes a member while no round runs; a spare takes its place. */
void transition_drop(struct job *j, struct job_node *n);
/* Forgets the ranks of the last round. */
void transition_release(struct job *j);

/* end_cause.c: n's agent reports a stop. A report that adds nothing is not
 * passed on. */
void job_stop_handle(struct job *j, const struct job_node *n,
		     const struct wire_stop *m);
/* Counts a rank's exit. 1: the stop explains its failure. */
int job_stop_explains(struct job *j, const struct wire_exited *m);
/* All ranks have exited: if the stop ended at least one, sets j->end and
 * returns 1. */
int job_stop_ends(struct job *j);

/* join.c: makes all checks before a node gets a place. */
int join_check(const struct job *j, const struct wire_join *m, const char *at,
	       struct err *e);
/* Adds a member while there are fewer than max_nodes, else a spare. For the
 * first round a node may also ask to be a spare. `spare`: always a spare. */
int join_new(struct job *j, const struct wire_join *m, void *owner, int spare,
	     struct job_node **out, struct err *e);
/* A member that has not joined the coming round yet. */
int join_again(struct job *j, const struct wire_join *m, void *owner,
	       struct job_node *n, struct err *e);
/* Removes n from its place: it is GONE. */
void join_drop(struct job *j, struct job_node *n);
/* A member that has joined becomes a spare. */
void join_demote(struct job *j, struct job_node *n);
/* The spare that would be promoted next, or NULL. Spares that were swapped out
 * come last, and only if there are too few members without them. */
struct job_node *join_next_spare(const struct job *j);
/* Makes the first spare a member and returns it; NULL if there is no place or
 * no spare that fits. */
struct job_node *join_promote(struct job *j);

/* assign.c: sets the node ranks and base ranks of all members, which have
 * joined. 0 or -ENOMEM. */
int assign_ranks(struct job *j);
void assign_addr_key(struct job_node *n);
/* Notes in m, which is empty, that host had this rank. Takes host; NULL leaves
 * m empty. */
void assign_fill(struct job *j, struct job_memory *m, char *host, int32_t rank);
/* n leaves: frees its rank and remembers it for its host. */
void assign_forget(struct job *j, struct job_node *n);

/* job_query.c: 1 if a line about missing nodes can name the explicit ranks that
 * no node has claimed, which helps more than a number: every node so far has
 * claimed one. */
int job_names_unclaimed(const struct job *j);

/* round_transition.c */
/* The last round has ended: its nodes will say which steps they reached. */
void restarts_begin(struct job *j);
/* j->end restarts the round because a worker of n failed: counts failures at
 * the start, and announces in j->end that n is to be swapped for a spare. */
void restarts_note_failure(struct job *j, struct job_node *n,
			   const struct wire_exited *m);
/* n, of the last round, has joined again; steps: its JOIN's. If n is to be
 * swapped, and a spare still waits, they change places. */
void restarts_on_joined(struct job *j, struct job_node *n, uint64_t steps);
/* All nodes have joined again. 1: a further attempt would fail as well, and
 * j->end, which ended the last round, says so. */
int restarts_are_in_vain(struct job *j);

/* end_cause.c */
/* 1 if the exit may end the round. */
int end_cause_is_failure(const struct wire_exited *m);
char *end_cause_of_exit(const struct job_node *n, const struct wire_exited *m);
/* Sets j->end to a copy of m. Without memory only its text is kept. */
void end_cause_set(struct job *j, const struct wire_end *m);
/* A worker exited: remembers the first worker that left early, or with 0. */
void end_cause_note_early(struct job *j, const struct wire_exited *m);
/* Set j->end: for a worker that failed (or the worker that left before and
 * caused the failure), and for a node (or NULL). text is copied. */
void end_cause_worker(struct job *j, const struct job_node *n,
		  const struct wire_exited *m, const char *text);
/* Makes j->end, which restarted the last round, the end of the job. The text
 * comes before that of the failure. */
void end_cause_give_up(struct job *j, const char *text);
/* All workers exited with 0, or were left out. */
void end_cause_success(struct job *j);
void end_cause_other(struct job *j, const struct job_node *n,
		 enum wire_verdict verdict, int exit_code, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* "node 1 (h2)", or "h2" before it has a rank; into out[300] */
const char *node_name(const struct job_node *n, char *out);

#endif

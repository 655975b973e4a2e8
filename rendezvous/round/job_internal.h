/* job_internal.h: the insides of a job, for the files that it consists of:
 * job.c (states and events), round_transition.c (starts and ends of rounds),
 * job_stop.c (stops), join.c (which nodes may join), assign.c (ranks),
 * end_cause.c (how it ended). Others include job.h. */
#ifndef RENDEZVOUS_JOB_INTERNAL_H
#define RENDEZVOUS_JOB_INTERNAL_H

#include "rendezvous/round/job.h"
#include "rendezvous/store/hash_table.h"

enum {
	EXIT_START_FAILED = 66, /* sysexits: an input is missing */
	EXIT_NODE_LOST = 69,    /* a service is unavailable */
};

/* What a node is to its job. */
enum job_place {
	NODE_MEMBER, /* in the running round, or waited for by the next */
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
	int store_open;  /* whoever comes may */
	uint32_t nproc;
	uint32_t seq; /* order of joining */
	enum job_place place;
	int joined;  /* a member that is there for the round, or in it */
	int running; /* has ranks in the running round */
	int told;    /* the last END is for it */
	int32_t home; /* the rank that is its own; -1: none yet */
	int32_t rank; /* in its last round, or -1; home where that fitted */
	uint32_t base; /* its first worker's rank */
	uint32_t role_base, role_world;
	uint32_t said;     /* how many notices, since its JOIN */
	uint32_t lease_ms; /* as its JOIN said */
};

/* A worker of the running round. */
struct job_rank {
	struct job_node *node;
	struct job_fate *fates;
	char *text; /* how it exited; NULL: it runs */
	int failed; /* not with code 0 */
};

/* The rank of a node that went, for one that comes from the same host. */
struct job_memory {
	char *host; /* NULL: nothing */
	int32_t rank;
};

enum { MEMORIES = 256 };

/* That the job is to stop. */
struct job_stop_order {
	uint8_t level, cause; /* level 0: it is not */
	int32_t signal;
	uint32_t grace_ms;
	char text[ERR_TEXT_MAX]; /* of the highest level */
	char first[ERR_TEXT_MAX]; /* of the first, which it ends with */
	int exit_code;
	uint32_t stopped, killed; /* ranks that ended as told; by a signal */
};

struct job {
	char *id;
	enum job_state state;
	/* first + attempt + changes == round, until the job is over */
	uint32_t round, attempt, changes;
	/* said by the first node, and by all others after it */
	char *first_host;
	uint32_t min_nodes, max_nodes, max_restarts, last_call_ms;
	struct hash_table by_id;
	struct job_node *nodes, **nodes_tail;
	struct job_node **homes; /* max_nodes of them: whose rank it is */
	uint32_t members, spares, seq;
	uint32_t joined; /* of the members */
	uint64_t nproc;  /* of the joined ones together */
	int calling;     /* the last call is out */
	struct job_memory memory[MEMORIES];
	uint32_t next_memory;
	size_t memory_bytes; /* of the hosts' names there */
	/* the running round */
	struct job_node **order; /* nnodes of them, by node rank */
	uint32_t nnodes;
	struct job_rank *ranks;
	uint32_t world_size, exited;
	struct buf early; /* EXITED of the first that left early; or empty */
	struct job_stop_order told;
	struct buf missing; /* STATE's text */
	/* the last END, and what its slices point to */
	struct wire_end end;
	char end_text[ERR_TEXT_MAX];
	char *end_copies[6];
	/* to do */
	struct job_action *actions;
	size_t nactions, actions_cap, next_action;
	int lost_action;
};

/* round_transition.c */
void transition_act(struct job *j, struct job_action a);
void transition_tell_state(struct job *j);
void transition_tell_fates(struct job *j, struct job_rank *r, const char *text);
/* The round is over, or the job: j->end says why. Spares fill up. */
void transition_end(struct job *j);
/* The round begins with all who have joined. */
void transition_start(struct job *j);
/* After each change of who is in a job that does not run. */
void transition_start_or_wait(struct job *j);
/* A member goes while no round runs: a spare takes its place. */
void transition_drop(struct job *j, struct job_node *n);
/* Forgets the ranks of the last round. */
void transition_release(struct job *j);

/* job_stop.c: n's agent reports a stop; one that adds nothing is not passed on.
 */
void job_stop_take(struct job *j, const struct job_node *n,
	       const struct wire_stop *m);
/* Counts a rank's exit; 1: it failed because of the stop. */
int job_stop_explains(struct job *j, const struct wire_exited *m);
/* All ranks have exited: 1 and j->end, if the stop ended at least one. */
int job_stop_ends(struct job *j);

/* join.c: all that speaks against it; then the node with its place. */
int join_check(const struct job *j, const struct wire_join *m, const char *at,
	       struct err *e);
/* A member while there are fewer than max_nodes, else a spare; for the first
 * round also one that says it is one. `spare`: a spare in any case. */
int join_new(struct job *j, const struct wire_join *m, void *owner, int spare,
	     struct job_node **out, struct err *e);
/* A member that has not joined the coming round yet. */
int join_again(struct job *j, const struct wire_join *m, void *owner,
	       struct job_node *n, struct err *e);
/* Takes n out of its place: it is GONE. */
void join_drop(struct job *j, struct job_node *n);
/* Who would be promoted next, or NULL. */
struct job_node *join_next_spare(const struct job *j);
/* The first spare becomes a member: it, or NULL where there is no place or no
 * spare that fits. */
struct job_node *join_promote(struct job *j);

/* assign.c: node ranks and base ranks, of all members, which have joined. 0 or
 * -ENOMEM. */
int assign_ranks(struct job *j);
void assign_addr_key(struct job_node *n);
/* m is empty from now on. */
void assign_empty(struct job *j, struct job_memory *m);
/* host (taken, or NULL) left that rank: into m, which is empty. */
void assign_fill(struct job *j, struct job_memory *m, char *host, int32_t rank);
/* n goes: its rank is free, and kept in mind for its host. */
void assign_forget(struct job *j, struct job_node *n);

/* end_cause.c */
char *end_cause_of_exit(const struct job_node *n, const struct wire_exited *m);
/* j->end is m, of which all is copied. */
void end_cause_restore(struct job *j, const struct wire_end *m);
/* A worker of n has exited with 0: remembers the first that left early. */
void end_cause_note_early(struct job *j, const struct wire_exited *m);
/* Makes j->end, of a worker that failed, or of one that left early where that
 * is why; or of a node (or NULL). text is copied. */
void end_cause_worker(struct job *j, const struct job_node *n,
		  const struct wire_exited *m, const char *text);
void end_cause_other(struct job *j, const struct job_node *n,
		 enum wire_verdict verdict, int exit_code, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* "node 1 (h2)", or "h2" before it has a rank; into out[300] */
const char *node_name(const struct job_node *n, char *out);

#endif

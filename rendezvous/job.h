/* job.h: the insides of a job, for the files that make it up: round.c (states
 * and events), join.c (who may come), assign.c (ranks), cause.c (how it ended).
 * Everybody else includes round.h. */
#ifndef RENDEZVOUS_JOB_H
#define RENDEZVOUS_JOB_H

#include "rendezvous/round.h"
#include "rendezvous/table.h"

enum {
	EXIT_START_FAILED = 66, /* sysexits: an input is missing */
	EXIT_NODE_LOST = 69,    /* a service is unavailable */
};

struct job_node {
	struct table_item item; /* first: by node_id */
	struct job_node *next, **pprev;
	void *owner;
	char *node_id, *host, *addr;
	unsigned char addr_key[17]; /* family and address, to sort by */
	uint16_t master_port;
	int hosts_server;
	int32_t wanted; /* --node-rank, or -1 */
	uint32_t nproc;
	uint32_t seq;  /* order of joining */
	int joined;    /* for the round that gathers */
	int32_t rank;  /* -1 before its first round; kept over restarts */
	uint32_t base; /* its first worker's rank */
};

/* A worker of the running round. */
struct job_rank {
	struct job_node *node;
	struct job_fate *fates;
	char *text; /* how it exited; NULL: it runs */
	int failed; /* not with code 0 */
};

struct job {
	char *id;
	enum job_state state;
	uint32_t round, attempt;
	/* said by the first node, and by all others after it */
	char *first_host;
	uint32_t nnodes, max_restarts;
	struct table by_id;
	struct job_node *nodes, **nodes_tail;
	struct job_node **wanted; /* nnodes of them, by --node-rank */
	uint32_t joined, seq;
	uint64_t nproc; /* of the joined ones together */
	/* the running round */
	struct job_node **order; /* by node rank */
	struct job_rank *ranks;
	uint32_t world_size, exited;
	struct buf start_nodes; /* START's list, ready to send */
	struct buf missing;     /* STATE's text */
	/* the last END, and what its slices point to */
	struct wire_end end;
	char end_text[ERR_TEXT_MAX];
	char *end_host, *end_tail;
	/* to do */
	struct job_action *actions;
	size_t nactions, actions_cap, next_action;
	int lost_action;
};

/* join.c: all that speaks against it, then the node with its place. */
int join_check(const struct job *j, const struct wire_join *m, const char *at,
	       struct err *e);
int join_new(struct job *j, const struct wire_join *m, void *owner,
	     struct job_node **out, struct err *e);
int join_again(struct job *j, const struct wire_join *m, void *owner,
	       const char *at, struct job_node **out, struct err *e);
int join_refuse_full(const struct job *j, const struct wire_join *m,
		     const char *at, struct err *e);
void join_undo(struct job *j, struct job_node *n);

/* assign.c: node ranks, base ranks, START's list. 0 or -ENOMEM. */
int assign_ranks(struct job *j);
void assign_addr_key(struct job_node *n);

/* cause.c */
char *cause_of_exit(const struct job_node *n, const struct wire_exited *m);
/* Makes j->end, of a worker, or of a node (or NULL). text is copied. */
void cause_worker(struct job *j, const struct job_node *n,
		  const struct wire_exited *m, const char *text);
void cause_other(struct job *j, const struct job_node *n,
		 enum wire_verdict verdict, int exit_code, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* "node 1 (h2)", or "h2" before it has a rank; into out[300] */
const char *node_name(const struct job_node *n, char *out);

#endif

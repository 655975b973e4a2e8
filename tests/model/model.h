/* model.h: a model checker for the rounds of a job. It explores all
 * interleavings of the events of a job of two or three nodes and calls the real
 * code: rendezvous/round makes the decisions, job_save and job_load are the
 * server's memory, the tables of launcher/agent/agent_state.c and
 * launcher/membership/membership.c move each agent. server.c and agent.c
 * replace the code around these, without sockets, timers and processes.
 *
 * A state is a world (below: agents, connections and the server's knowledge
 * besides the job) and the job as job_save writes it. Both are bytes without
 * pointers and times. Each state is visited once: a set holds the 64-bit hash
 * of the bytes of each visited state. Before hashing, the order of joining is
 * renumbered from 0, since only the order matters. States are not merged by
 * exchanging nodes: addresses and the host of the server decide ranks, so nodes
 * differ.
 *
 * Each direction of a connection is a FIFO queue of frames. When a connection
 * ends, the frames in both are lost. There are three kinds of steps:
 *   progress   happens sooner or later: a frame is read, a worker exits, an
 *              agent reconnects, a timer of the server expires (at any moment)
 *   fault      at most `faults` of them happen in a run: a worker fails, an
 *              agent is killed, a connection is reset, the server dies, a node
 *              or the job is stopped. A killed agent may be started again once
 *   timeout    --rdzv-timeout or the grace period; only if no progress is
 *              possible
 * When the server dies, it loses everything that is not in its journal. The
 * next server has the job through job_save and job_load, and agents send
 * RESUME. The real server commits an event before its answers leave, so a death
 * in between is a death before the agent reads them.
 *
 * property.c checks the properties that must hold after each step, and when no
 * progress is possible. docs/testing.md lists them.
 *
 * The search is breadth-first, so the first violation has a shortest trace. The
 * trace is printed in words, with the command that repeats it. States that the
 * search has no time to expand are run to their end, by the first possible
 * progress at each state, so that their ends are checked as well.
 *
 * Not modelled: keys and PyTorch's clients, two jobs of one name at a time (a
 * node that joins a job that is over gets its END), etcd, nodes with different
 * options. */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "launcher/agent/agent_state.h"
#include "launcher/membership/membership.h"
#include "rendezvous/round/job.h"

enum { NODES_MAX = 3, WORKERS_MAX = 2, QUEUE_MAX = 20, STEPS_MAX = 64 };

/* ---- the job to check ---- */

struct setup {
	const char *name;
	uint32_t nodes, min, max, restarts;
	uint32_t spares; /* how many of the last nodes ask to be spares */
	int hosted;	 /* node 0's agent started the server */
	uint32_t broken; /* bits of nodes whose workers always fail */
	/* in each attempt the workers reach the same step */
	uint64_t steps;
	uint32_t no_progress, swap_after;
	uint32_t nproc[NODES_MAX];
};

extern const struct setup *setup;

/* ---- a state, without the job ---- */

/* A frame of rendezvous/wire.h, or the end of a connection. Only the fields of
 * its type are set. */
struct message {
	uint8_t type; /* enum wire_type, or MESSAGE_CLOSE */
	uint8_t level, whole, by_ssh, stopped;
	uint8_t began, ended, known, joined, heard;
	uint8_t verdict, spare, refused;
	uint8_t rank, node_rank, nnodes, world, job;
	int16_t code, signal;
	uint16_t round;
};

enum { MESSAGE_CLOSE = 255 };

struct queue {
	uint16_t n;
	struct message at[QUEUE_MAX];
};

enum life { LIFE_OUT, LIFE_UP, LIFE_EXITED, LIFE_KILLED };
enum link_state { LINK_DOWN, LINK_UP, LINK_CLOSED /* by the server, unseen */ };
enum worker_state { WORKER_NONE, WORKER_RUNS, WORKER_ENDED };

/* A ddprun. */
struct agent {
	struct membership membership;
	uint8_t life, number; /* number of restarts: each is another node */
	uint8_t state;	      /* enum agent_state */
	uint8_t link;
	uint8_t has_started, is_urgent, dismissed;
	uint8_t notice; /* enum wire_level */
	uint8_t base, unused;
	uint8_t workers[WORKERS_MAX];
	uint8_t job;	   /* audit.jobs at its last START */
	uint8_t ended;	   /* audit: the END of its round was read */
	int16_t exit_code; /* -1: unknown */
	uint16_t round;
	struct queue outbox;
};

enum half { HALF_NONE, HALF_RESET, HALF_CLOSED };
enum server_life { SERVER_UP, SERVER_DEAD, SERVER_GONE };

/* The server's end of a connection: the node that it is attached to, and an
 * earlier connection whose end the server has not noticed yet. */
struct peer_end {
	uint8_t attached, half, half_number;
	uint8_t sent_spare; /* the last value sent; 2: none yet */
};

struct server {
	uint8_t life, draining;
	uint8_t lost[NODES_MAX]; /* bit n: agent number n was counted as lost */
	uint8_t has_ended;	 /* a job ended, and the server freed it */
	uint8_t first_round;	 /* the next job's */
	/* copied from the job, so that listing the steps does not load it: the
	 * last call runs; nodes without a connection, as in `lost` */
	uint8_t calling, absent[NODES_MAX];
	struct peer_end peers[NODES_MAX];
};

/* Remembered only for the properties. */
struct audit {
	uint16_t starts, ends; /* round + 1 of the last one */
	uint8_t failures;      /* workers that failed */
	uint8_t restarts;
	uint8_t done; /* workers that exited with 0 in the running round */
	uint8_t first_round; /* the job's */
	uint8_t jobs;	     /* number of jobs of this name so far */
	int8_t home[NODES_MAX];
};

struct world {
	struct agent agents[NODES_MAX];
	struct queue to_server[NODES_MAX], to_agent[NODES_MAX];
	struct server server;
	struct audit audit;
	uint64_t faults; /* still allowed; 64 bits keep the world whole words */
};

/* The state that the checker works on. */
struct run {
	struct world w;
	struct job *job;    /* NULL: none, or not loaded */
	struct slice bytes; /* the job's, while it is not loaded */
	int is_loaded;
	int says; /* print each step */
};

void run_load(struct run *r); /* call it before a step that uses the job */
void run_release(struct run *r);
void run_begin(struct run *r, uint8_t faults);
/* The state as bytes, and back; run_set borrows them. */
void run_put(struct run *r, struct buf *out);
void run_set(struct run *r, struct slice bytes);

struct message *queue_put(struct queue *q, const struct message *m);
struct message queue_take(struct queue *q);
void queue_clear(struct queue *q);

/* ---- steps ---- */

enum step_kind {
	/* progress */
	STEP_COME,
	STEP_TO_AGENT,
	STEP_TO_SERVER,
	STEP_RECONNECT,
	STEP_WORKERS_GONE,
	STEP_EXIT,
	STEP_SEES_HALF,
	STEP_NEXT_SERVER,
	STEP_PARENT_GONE,
	STEP_SERVER_EXITS,
	STEP_DETACH,
	STEP_KILL_GRACE,
	STEP_LAST_CALL,
	STEP_ABSENT,
	/* faults */
	STEP_FAIL,
	STEP_CANNOT_START,
	STEP_KILL,
	STEP_RESET,
	STEP_RENEW,
	STEP_LEASE,
	STEP_DIE,
	STEP_SIGNAL,
	STEP_SIGNAL_JOB,
	STEP_SSH,
	STEP_STOP_SERVER,
	STEP_RETURN,
	/* only if no progress is possible */
	STEP_DEADLINE,
	STEP_GRACE,
	STEP_KINDS
};

struct step {
	uint8_t kind, node, arg;
};

int step_is_progress(enum step_kind kind);
/* Lists all possible steps in the order of the kinds. */
size_t step_list(struct run *r, struct step *out);
void step_apply(struct run *r, struct step s);
void step_text(const struct run *r, struct step s, struct buf *out);

/* ---- the two sides ---- */

void server_take(struct run *r, int i);
void server_sees_half(struct run *r, int i);
void server_absent(struct run *r, int i, int number);
void server_lease(struct run *r, int i);
void server_last_call(struct run *r);
void server_stop(struct run *r, int parent_gone);
void server_die(struct run *r);
void server_start(struct run *r);
void server_reset(struct run *r, int i, enum membership_event ev);
void server_exit(struct run *r);
/* Call it when agent i is started again: its earlier connection has ended. */
void server_before_return(struct run *r, int i);
/* The node of agent i's life `number`, or NULL. */
struct job_node *server_node(const struct run *r, int i, int number);
void server_own_nodes(struct run *r);
void server_note_job(struct run *r);

void agent_come(struct run *r, int i);
void agent_take(struct run *r, int i);
void agent_reconnect(struct run *r, int i);
void agent_worker_exits(struct run *r, int i, int k, int code);
void agent_workers_gone(struct run *r, int i);
void agent_cannot_start(struct run *r, int i);
void agent_signal(struct run *r, int i, int whole, int by_ssh);
void agent_killed(struct run *r, int i);
void agent_link_lost(struct run *r, int i, enum membership_event ev);
void agent_detach(struct run *r, int i);
void agent_deadline(struct run *r, int i);
void agent_grace(struct run *r, int i);
int agent_running(const struct agent *a);

/* ---- properties ---- */

/* The first property that does not hold; "" if all do. */
extern char violation[1024];
void violate(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void property_job(const struct run *r);
void property_start(struct run *r);
void property_end(struct run *r);
void property_quiet(struct run *r, const struct step *steps, size_t n);

#endif

/* worker.h: the workers of one round on this node, as one group: started,
 * signalled and reaped. Knows nothing of other nodes or of why. */
#ifndef LAUNCHER_WORKER_H
#define LAUNCHER_WORKER_H

#include <sys/resource.h>

#include "launcher/output/outlet.h"
#include "launcher/output/stream.h"
#include "launcher/plan/plan.h"
#include "launcher/worker/guard.h"
#include "launcher/worker/input.h"
#include "launcher/worker/spawn.h"

struct group;

struct worker {
	struct group *group;
	uint32_t local_rank;
	pid_t pid;    /* it leads the process group of this number */
	int running;
	int stopped;  /* it was told to stop, */
	int killed;   /* and by SIGKILL in the end */
	int had;      /* the last signal that told it so */
	int status;       /* how it ended: wait's word, */
	int code, signal; /* and what that says */
	uint8_t core;     /* it dumped one */
	uint64_t max_rss_kib; /* its peak, and that of its children */
	uint64_t started_ns, ended_ns, ran_ms;
	struct tail tail; /* of its stderr */
	struct stream out, err; /* open where the agent reads them */
};

struct group {
	uv_loop_t *loop;
	struct output *output;
	struct guard *guard;
	struct outlet_rules outlet_rules; /* the owner's to set */
	struct input *input;
	struct worker *workers;
	uint32_t n;
	uint32_t base_rank;
	uint32_t running;      /* workers */
	uint32_t open_streams;
	uint32_t at;           /* where the last search ended */
	int dev_null;
	uint64_t locks; /* marks the workers: see sweep.h; the owner's to set */
	int closing;
	void (*on_started)(struct group *g); /* after each worker */
	/* no worker runs, no stream is open: it may be started again */
	void (*on_closed)(struct group *g);
	/* This signal does not reach a worker that runs as another user. After
	 * SIGKILL it counts as ended: nothing waits for it any more. */
	void (*on_denied)(struct group *g, struct worker *w, int signal);
	void *owner;
};

/* Fills g for n workers. on_closed follows each group_close. */
int group_init(struct group *g, uv_loop_t *loop, struct output *output,
	       struct input *input, struct guard *guard, uint32_t n,
	       struct err *e);
void group_release(struct group *g);

/* Starts all n as planned. On an error those that were started run on: stop
 * them. open_files as in struct spawn. */
int group_start(struct group *g, struct plan *plan, uint64_t open_files,
		struct err *e);

/* Sends a signal to the process group of one, or of all, and to workers that
 * have left theirs; counts those that run as told to stop. */
void group_signal_one(struct worker *w, int signal);
void group_signal(struct group *g, int signal);

/* Sends a signal that is not meant to stop them. */
void group_relay(struct group *g, int signal);

/* The worker of this pid, or NULL. The next ended the process: its output is
 * drained, its fields say how. */
struct worker *group_find(struct group *g, pid_t pid);
void group_exited(struct group *g, struct worker *w, int status,
		  const struct rusage *usage);

/* The worker that has that socket open, or has started who has it: *pid; NULL:
 * none of which /proc says so. Takes 50 ms at most. */
struct worker *group_find_socket(struct group *g, uint64_t inode, pid_t *pid);

/* Some of this round's have been told to stop. */
int group_was_stopped(const struct group *g);

uint32_t group_rank(const struct worker *w);

/* Closes all streams. Only when no worker runs. */
void group_close(struct group *g);

#endif

/* worker_group.h: starts, signals and reaps the workers of one round on this
 * node, as one group. Knows neither other nodes nor the reasons. */
#ifndef LAUNCHER_WORKER_GROUP_H
#define LAUNCHER_WORKER_GROUP_H

#include <stdint.h>
#include <sys/resource.h>

#include "base/error.h"
#include "launcher/output/redirect.h"
#include "launcher/output/stream.h"
#include "launcher/plan/plan.h"
#include "launcher/worker/guard.h"
#include "launcher/worker/input.h"
#include "launcher/worker/spawn.h"
#include "launcher/worker/tty.h"

struct worker_group;

struct worker {
	struct worker_group *group;
	uint32_t local_rank;
	pid_t pid;    /* it leads the process group of this number */
	int running;
	int stopped;  /* we signalled it to stop */
	int killed;   /* the last signal was SIGKILL */
	int had;      /* the last signal to stop that we sent */
	uint32_t restarts; /* alone, in this round */
	int status;       /* how it ended: wait(2)'s status */
	int code, signal; /* decoded from status */
	uint8_t core;     /* it dumped core */
	uint64_t max_rss_kib; /* peak of it and its waited-for children */
	uint64_t started_ns, ended_ns, ran_ms;
	struct tail tail;     /* its stderr's, or its terminal's */
	struct tail out_tail; /* its stdout's, if the agent reads that */
	char abort_text[320]; /* what it reported before it ended; or "" */
	struct stream out, err; /* open if the agent reads them */
};

struct worker_group {
	uv_loop_t *loop;
	struct output *output;
	struct guard *guard;
	struct redirect_rules redirect_rules; /* set by the owner */
	struct input *input;
	struct tty *tty;
	struct worker *workers;
	uint32_t n;
	uint32_t base_rank;
	uint32_t running;      /* workers */
	uint32_t open_streams;
	uint32_t at;           /* where the last search ended */
	int dev_null;
	uint64_t locks; /* marks the workers: see sweep.h; set by the owner */
	unsigned long timer_slack; /* as in struct spawn; set by the owner */
	int closing;
	/* The descriptor that a worker inherits under its own number; NULL:
	 * none. */
	int (*socket)(struct worker_group *g, uint32_t local_rank);
	/* Starts one, as spawn_process does; NULL: spawn_process. */
	pid_t (*start)(struct worker_group *g, const struct spawn *s,
		       struct err *e);
	void (*on_started)(struct worker_group *g); /* after each worker */
	/* no worker runs, no stream is open: the group may start again */
	void (*on_closed)(struct worker_group *g);
	/* We may not signal a worker that runs as another user. If the signal
	 * was SIGKILL, it counts as ended: nothing waits for it any more. */
	void (*on_denied)(struct worker_group *g, struct worker *w, int signal);
	void *owner;
};

/* Fills g for n workers. on_closed follows each worker_group_close. */
int worker_group_init(struct worker_group *g, uv_loop_t *loop,
		      struct output *output, struct input *input,
		      struct tty *tty, struct guard *guard, uint32_t n,
		      struct err *e);
void worker_group_release(struct worker_group *g);

/* Starts all n workers as planned. After an error the workers that were started
 * still run: the caller must stop them. open_files as in struct spawn. */
int worker_group_start(struct worker_group *g, struct plan *plan,
		       uint64_t open_files, struct err *e);

/* Starts a worker alone once more, which has ended, with the plan of its round.
 * Kills what it left in its process group. If it cannot be started, or is
 * killed at once because its output cannot be read, that is an error. */
int worker_start_again(struct worker *w, struct plan *plan, uint64_t open_files,
		       struct err *e);

/* Signals the process group of one worker or of all, and workers that left
 * their group. Marks running workers as stopped. */
void worker_stop(struct worker *w, int signal);
void worker_group_stop(struct worker_group *g, int signal);

/* Sends a signal to all without marking them as stopped. */
void worker_group_relay(struct worker_group *g, int signal);

/* The running worker with this pid, or NULL. After its process has ended call
 * worker_group_exited, which drains its output and records how it ended. */
struct worker *worker_group_find(struct worker_group *g, pid_t pid);
void worker_group_exited(struct worker_group *g, struct worker *w, int status,
			 const struct rusage *usage);

/* The worker that has that socket open, itself or through a descendant; *pid is
 * that process. NULL: /proc shows none. Takes 50 ms at most. */
struct worker *worker_group_find_socket(struct worker_group *g, uint64_t inode,
					pid_t *pid);

/* 1 if some of this round's workers were signalled to stop. */
int worker_group_was_stopped(const struct worker_group *g);

uint32_t worker_rank(const struct worker *w);

/* Closes all streams. Call it only when no worker runs. */
void worker_group_close(struct worker_group *g);

/* ---- the workers' ports ----
 *
 * A port for each worker of this node, reserved as MASTER_PORT is: a worker
 * can bind it with SO_REUSEADDR, and the kernel gives it to nobody else. */

/* All zero: none are reserved. */
struct worker_ports {
	uint32_t n;
	uint16_t *ports; /* by local rank; NULL: none */
	int *fds;
};

/* Reserves n ports, none of which was reserved before, and only then gives the
 * old ones up: connections that the last attempt left in them must not disturb
 * the next. 0, or an error; then p is unchanged. */
MUST_CHECK int worker_ports_reserve(struct worker_ports *p, uint32_t n,
				    struct err *e);
void worker_ports_release(struct worker_ports *p);

#endif

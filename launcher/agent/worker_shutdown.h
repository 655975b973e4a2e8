/* worker_shutdown.h: stops this node's workers and the processes they leave
 * behind: notifies them, gives them time, kills them. The owner decides when,
 * and what the end of the grace period means. */
#ifndef LAUNCHER_WORKER_SHUTDOWN_H
#define LAUNCHER_WORKER_SHUTDOWN_H

#include "base/loop.h"
#include "launcher/worker/recorder.h"
#include "launcher/worker/sweep.h"
#include "launcher/worker/worker_group.h"

/* A grace period without an end. */
#define SHUTDOWN_NO_LIMIT UINT32_MAX

struct worker_shutdown {
	void *owner;
	void (*on_over)(void *owner);  /* the grace period is over */
	void (*on_sweep)(void *owner); /* call worker_shutdown_sweep again */
	struct worker_group *group;
	struct recorder *recorder;
	uv_timer_t timer, sweep_timer;
	int signal;       /* for workers and what they leave behind */
	int is_announced; /* the log says that the workers take long */
	int is_far;       /* workers of other nodes are awaited as well */
	uint64_t left_ms; /* the rest of the grace period, after the
			   * announcement */
	char cause[ERR_TEXT_MAX]; /* in words; the owner sets it */
	struct sweep sweep; /* leftovers that were signalled */
	const struct sweep_marks *marks; /* those of all leftovers; the
					  * owner's */
};

void worker_shutdown_init(struct worker_shutdown *s, uv_loop_t *loop,
			  struct worker_group *group,
			  struct recorder *recorder);
/* The loop must run once more before worker_shutdown_release. */
void worker_shutdown_close(struct worker_shutdown *s);
void worker_shutdown_release(struct worker_shutdown *s);

/* Sets the flag that ddp_should_stop() reads, and sends signal (0: none) to the
 * workers that do not poll it. Returns how many workers were notified. */
uint32_t worker_shutdown_notify(struct worker_shutdown *s, int signal);
/* Sends s->signal to all workers that have not had it. */
void worker_shutdown_signal(struct worker_shutdown *s);
void worker_shutdown_kill(struct worker_shutdown *s);

/* Starts a grace period of ms. The log announces a long one. */
void worker_shutdown_set_grace(struct worker_shutdown *s, uint32_t ms);
/* The same, without the announcement. */
void worker_shutdown_wait(struct worker_shutdown *s, uint32_t ms);
/* on_over is not called any more. */
void worker_shutdown_end_grace(struct worker_shutdown *s);
/* A grace period has begun and is not over. */
int worker_shutdown_has_grace(const struct worker_shutdown *s);

/* Once no worker runs, signals their orphans, which have become our children;
 * closes the group when none of those is left. ours are children to spare.
 * on_sweep follows soon if a process is in execve, where it looks like a
 * stranger. */
void worker_shutdown_sweep(struct worker_shutdown *s, const pid_t *ours,
			   int nours);
/* A new stop begins: leftovers may be signalled again. */
void worker_shutdown_begin(struct worker_shutdown *s);

#endif

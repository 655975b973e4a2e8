/* watch.h: looks once a second at what this node's workers do, and reports it
 * to the owner, which passes it on to the server. Ends nothing. */
#ifndef LAUNCHER_WATCH_H
#define LAUNCHER_WATCH_H

#include "base/loop.h"
#include "launcher/crash/crash_catcher.h"
#include "launcher/python/python.h"
#include "launcher/watch/activity.h"
#include "launcher/watch/sampler.h"
#include "launcher/watch/stderr_file.h"
#include "launcher/watch/wait_share.h"
#include "launcher/worker/recorder.h"
#include "launcher/worker/worker_group.h"
#include "rendezvous/wire.h"

struct watched {
	struct activity activity;
	struct sampler_call call;
	struct wait_share share;
	struct group_waits groups;
	/* the program's, once it has been quiet; no runtime: not Python */
	struct python_process python;
	enum wire_doing reported; /* in the last report */
	struct stderr_file said;
	uint64_t began_ns; /* it was started again alone; 0: it was not */
};

struct watch {
	void *owner;
	void (*on_report)(void *owner, const struct wire_progress *m);
	/* The file in which a worker may report its steps, into out[PATH_MAX];
	 * "": none. Returns out. */
	const char *(*step_file)(void *owner, uint32_t local_rank, char *out);
	/* Appends the error with which a worker's stderr ends, if it does. */
	void (*put_said)(void *owner, uint32_t local_rank, struct buf *out);
	const struct worker_group *group;
	const struct recorder *recorder;
	const struct crash_catcher *catcher;
	uv_timer_t timer;
	uint32_t patience_ms, round;
	unsigned ticks;
	uint64_t steps; /* see watch_steps; of the calls so far */
	int has_begun;	/* a round */
	struct watched *workers; /* [group->n]; NULL: no round is watched */
	struct flight_view *view;
	int is_file_server_gone; /* a worker's stderr was there */
};

/* The caller has set owner, the callbacks, group, recorder and catcher. */
void watch_init(struct watch *w, uv_loop_t *loop);
/* A round's workers have been started. Without memory it is not watched. */
void watch_begin(struct watch *w, uint32_t round);
/* A worker was started again alone. */
void watch_again(struct watch *w, uint32_t local_rank);
/* A worker has failed: looks at all others, and reports at once. If its last
 * calls failed, it is reported as in the first of them. */
void watch_report_failure(struct watch *w, uint32_t local_rank);
/* Appends the end of the file to which that worker has redirected its stderr,
 * if it has and wrote to it since then. It may be dead. Nothing if another
 * worker writes to the same file: the lines may be that one's. 0, or
 * -ETIMEDOUT: the file's server does not answer; it is not asked again in this
 * round. */
int watch_put_stderr(struct watch *w, uint32_t local_rank, time_t since,
		     struct buf *out);
/* Appends which child of it was killed in the minute before it last made
 * progress, or since then: "its process 812 (python3) was killed by signal 9
 * (SIGKILL)". */
void watch_put_dead_child(const struct watch *w, uint32_t local_rank,
			  struct buf *out);
/* They are about to be stopped. */
void watch_end(struct watch *w);
/* The highest step that a worker has reported in the last round, plus 1; 0:
 * none. Looks at all of them once more; they may be gone. */
uint64_t watch_steps(struct watch *w);
/* The loop must run once more. */
void watch_close(struct watch *w);

#endif

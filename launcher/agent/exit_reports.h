/* exit_reports.h: reports to the server how this node's workers ended, in the
 * order in which they ended. A worker killed by a signal that may also be on
 * its way to us is held briefly, and so are those that end after it. */
#ifndef LAUNCHER_EXIT_REPORTS_H
#define LAUNCHER_EXIT_REPORTS_H

#include "launcher/agent/agent.h"
#include "launcher/failure/failure.h"
#include "launcher/membership/member.h"
#include "launcher/watch/watch.h"

struct exit_reports {
	const struct agent_options *options;
	const struct stop_request *stop; /* the owner's */
	struct failure *failure;
	struct member *member;
	struct watch *watch;
	/* This node is not fit (--preflight), and leaves: no worker failed. */
	void (*on_unfit)(void *owner, struct slice why);
	/* A worker of an optional role has failed. 1: it was started again
	 * alone; 0: it was not, because its restarts are used up or for the
	 * reason in e. */
	int (*start_again)(void *owner, struct worker *w, struct err *e);
	void *owner;
	uint32_t round; /* the owner sets it */
	struct worker **held; /* in the order in which they ended */
	uint32_t n;
	uv_timer_t timer;
};

/* The caller has set the pointers. -ENOMEM. */
int exit_reports_init(struct exit_reports *r, uv_loop_t *loop, uint32_t workers,
		      struct err *e);
/* The loop must run once more before exit_reports_release. */
void exit_reports_close(struct exit_reports *r);
void exit_reports_release(struct exit_reports *r);

/* w's fields say how it ended. */
void exit_reports_add(struct exit_reports *r, struct worker *w);
/* Sends what is held: a request to stop came, or the round is over. */
void exit_reports_flush(struct exit_reports *r);

#endif

/* helper_link.h: the agent's side of its helper: starts the process, and sends
 * and receives frames. It ends when its socket is closed. Knows nothing of
 * MPI. */
#ifndef LAUNCHER_HELPER_LINK_H
#define LAUNCHER_HELPER_LINK_H

#include "base/loop.h"
#include "launcher/pmix/pmix_frame.h"

struct helper_link;

struct helper_link_events {
	/* Valid until return. */
	void (*on_frame)(struct helper_link *l, const struct pmix_frame *f);
	/* What it sends cannot be understood, or cannot be sent to it. Not
	 * after helper_link_close. */
	void (*on_failed)(struct helper_link *l, const struct err *why);
	/* After helper_link_close, when the helper has ended. */
	void (*on_closed)(struct helper_link *l);
};

struct helper_link {
	void *owner;
	const struct helper_link_events *events;
	pid_t pid; /* 0: it was reaped */
	int fd;
	uv_poll_t poll;
	struct buf in, out;
	int is_closing, has_failed, is_at_end;
};

/* Starts the process. After an error l needs no close. */
int helper_link_start(struct helper_link *l, uv_loop_t *loop,
		      const struct helper_link_events *events, void *owner,
		      struct err *e);
void helper_link_send(struct helper_link *l, const struct pmix_frame *f);
/* Reads what it has sent so far. */
void helper_link_poll(struct helper_link *l);
/* 1 if the process has ended, although it was not asked to; how it did, as
 * wait(2) reports it. */
int helper_link_is_dead(const struct helper_link *l, int *status);
/* Lets the helper end; on_closed follows, from the loop. */
void helper_link_close(struct helper_link *l);

#endif

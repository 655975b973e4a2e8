/* remote_link.h: one ssh to one host: the process, its three pipes, the ddprun
 * that is found there or copied to it, and then frames. Knows no job. */
#ifndef LAUNCHER_REMOTE_LINK_H
#define LAUNCHER_REMOTE_LINK_H

#include <sys/types.h>

#include "launcher/ssh/remote_pipe.h"
#include "launcher/ssh/ssh_command.h"

struct remote_link;

struct remote_link_events {
	/* A ddprun of ours listens there. */
	void (*on_open)(struct remote_link *l);
	void (*on_frame)(struct remote_link *l, const struct remote_frame *f);
	/* A line on ssh's stderr, after it opened; before that they are kept
	 * for why it fails. */
	void (*on_words)(struct remote_link *l, struct slice line);
	/* What a start-up file prints; at most once. */
	void (*on_noise)(struct remote_link *l, struct slice text);
	/* Process and pipes are gone; the last call, once. why->code is 0 after
	 * remote_link_release. */
	void (*on_down)(struct remote_link *l, const struct err *why);
};

enum { REMOTE_LINK_WORDS = 4096 };

struct remote_link {
	void *owner;
	const struct remote_link_events *events;
	const struct ssh_how *how;
	uint32_t host;    /* its number */
	const char *name; /* as ssh takes it */
	pid_t pid;        /* 0: reaped */
	int status;
	struct remote_pipe pipe;
	uv_pipe_t err;
	uv_timer_t timer; /* until it is open; then until it has gone */
	int open;         /* the far side is there */
	int copied;
	int released, killed, parts; /* parts: what is not gone yet */
	int told_noise;
	double timed_out; /* killed after so many seconds */
	uint32_t silent_ms;
	struct err broken; /* why we ended it; else ssh says it */
	struct buf words;
};

/* how, name, events must outlive it. The connection must be there within
 * timeout_ms, and after that be silent no longer than silent_ms, by pings.
 * Failing at once is an error, and nothing follows. */
int remote_link_start(struct remote_link *l, uv_loop_t *loop,
		      const struct ssh_how *how, uint32_t timeout_ms,
		      uint32_t silent_ms, struct err *e);

void remote_link_send(struct remote_link *l, uint8_t type, uint32_t host,
		      struct slice body);
/* As remote_pipe_send_buf. */
void remote_link_send_buf(struct remote_link *l, uint8_t type, uint32_t host,
			  const struct buf *body);
/* What it says cannot be believed: it ends, and on_down says why. */
void remote_link_break(struct remote_link *l, const char *why);
void remote_link_pause(struct remote_link *l, int paused);

/* It is not needed any more: the far side reads an end of file, ends what it
 * runs and goes; killed after so many ms. */
void remote_link_release(struct remote_link *l, uint64_t ms);

/* A child ended: 1 if it was this ssh. */
int remote_link_reaped(struct remote_link *l, pid_t pid, int status);

#endif

/* remote_link.h: one ssh to one host: its process and pipes, finding a ddprun
 * there or copying it, and then frames. Knows no job. */
#ifndef LAUNCHER_REMOTE_LINK_H
#define LAUNCHER_REMOTE_LINK_H

#include <sys/types.h>

#include "launcher/ssh/remote_pipe.h"
#include "launcher/ssh/ssh_command.h"

struct remote_link;

struct remote_link_events {
	/* A ddprun of our build answers there. */
	void (*on_open)(struct remote_link *l);
	void (*on_frame)(struct remote_link *l, const struct remote_frame *f);
	/* A line of ssh's stderr after on_open. Earlier lines are kept for the
	 * error message. */
	void (*on_line)(struct remote_link *l, struct slice line);
	/* Output of a shell's start-up file; at most once. */
	void (*on_noise)(struct remote_link *l, struct slice text);
	/* Process and pipes are gone. The last call; why->code is 0 after
	 * remote_link_release. */
	void (*on_down)(struct remote_link *l, const struct err *why);
};

enum { REMOTE_LINK_LINES = 4096 };

struct remote_link {
	void *owner;
	const struct remote_link_events *events;
	const struct ssh_options *how;
	uint32_t host;    /* its number */
	const char *name; /* as ssh takes it */
	pid_t pid;        /* 0: reaped */
	int status;
	struct remote_pipe pipe;
	uv_pipe_t err;
	uv_timer_t timer; /* for the connection, then for its end */
	int open;         /* on_open was called */
	int copied;
	int released, killed, parts; /* parts: still open; see the .c */
	int has_noise;
	double timed_out; /* killed after that many seconds; 0: not */
	uint32_t silent_ms;
	struct err broken; /* why we ended it; else ssh's stderr says why */
	struct buf lines;  /* ssh's stderr */
};

/* how, name and events must outlive it. The link fails if it is not open within
 * timeout_ms, or later is silent for silent_ms in spite of our pings. After an
 * error of this call there is no event. */
int remote_link_start(struct remote_link *l, uv_loop_t *loop,
		      const struct ssh_options *how, uint32_t timeout_ms,
		      uint32_t silent_ms, struct err *e);

void remote_link_send(struct remote_link *l, uint8_t type, uint32_t host,
		      struct slice body);
/* As remote_pipe_send_buf. */
void remote_link_send_buf(struct remote_link *l, uint8_t type, uint32_t host,
			  const struct buf *body);
/* The host sent nonsense: ends the link; on_down gets why. */
void remote_link_break(struct remote_link *l, const char *why);
void remote_link_pause(struct remote_link *l, int paused);

/* The link is not needed any more: the far side reads end of file, ends what it
 * runs and exits. ssh is killed after ms. */
void remote_link_release(struct remote_link *l, uint64_t ms);

/* A child ended: 1 if it was this ssh. */
int remote_link_reaped(struct remote_link *l, pid_t pid, int status);

#endif

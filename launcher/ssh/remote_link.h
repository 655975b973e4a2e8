/* remote_link.h: one ssh to one host: its process and pipes, finding a ddprun
 * there or copying it, and then frames. Knows no job. */
#ifndef LAUNCHER_REMOTE_LINK_H
#define LAUNCHER_REMOTE_LINK_H

#include <sys/types.h>

#include "base/loop.h"
#include "launcher/ssh/remote_frame.h"
#include "launcher/ssh/ssh_command.h"

/* ---- remote_pipe.c ----
 *
 * Sends and receives frames over two descriptors, one for each direction:
 * ssh's stdin and stdout on the near side, our own on the far side. Never
 * blocks; queues what cannot be written. Knows no frame's meaning. */

struct remote_pipe;

struct remote_pipe_events {
	/* Before remote_pipe_frames: p->rx has more bytes. NULL if frames begin
	 * with the first byte. */
	void (*on_bytes)(struct remote_pipe *p);
	void (*on_frame)(struct remote_pipe *p, const struct remote_frame *f);
	/* Nothing more comes: end of file (code 0) or an error. Once. */
	void (*on_end)(struct remote_pipe *p, const struct err *why);
	/* The queue is empty; may be NULL. */
	void (*on_sent)(struct remote_pipe *p);
	/* After remote_pipe_close. */
	void (*on_closed)(struct remote_pipe *p);
};

struct remote_pipe {
	void *owner;
	const struct remote_pipe_events *events;
	uv_pipe_t in, out;
	int open;     /* handles that are not closed yet */
	int out_gone; /* the peer does not read: output is dropped */
	int framed, paused, ended, closing, cutting;
	struct buf rx, tx, sending;
	uv_write_t write;
	uint64_t heard_ms; /* when something last came, by the loop's clock */
};

/* Takes both descriptors, even if it fails. The caller has set events and
 * owner. */
int remote_pipe_open(struct remote_pipe *p, uv_loop_t *loop, int in, int out,
		     int framed);
/* Called in on_bytes: all that follows is frames. */
void remote_pipe_frames(struct remote_pipe *p);
void remote_pipe_pause(struct remote_pipe *p, int paused);

void remote_pipe_send(struct remote_pipe *p, uint8_t type, uint32_t host,
		      struct slice body);
/* If the body's buffer failed for lack of memory, nothing is sent and the pipe
 * ends with on_end; so it does if the queue cannot grow. */
void remote_pipe_send_buf(struct remote_pipe *p, uint8_t type, uint32_t host,
			  const struct buf *body);
void remote_pipe_send_bytes(struct remote_pipe *p, struct slice bytes);
/* The peer sent nonsense: calls on_end with why. */
void remote_pipe_break(struct remote_pipe *p, const struct err *why);
/* Bytes in the queue. */
size_t remote_pipe_pending(const struct remote_pipe *p);

/* Closes our direction: the peer reads end of file. */
void remote_pipe_hang_up(struct remote_pipe *p);
/* Closes both directions and drops the queue; on_closed follows. */
void remote_pipe_close(struct remote_pipe *p);

/* ---- remote_link.c ---- */

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
	double timed_out; /* seconds after which we killed it, or 0 */
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

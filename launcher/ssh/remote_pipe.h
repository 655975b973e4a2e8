/* remote_pipe.h: sends and receives frames over two descriptors, one for each
 * direction: ssh's stdin and stdout on the near side, our own on the far side.
 * Never blocks; queues what cannot be written. Knows no frame's meaning. */
#ifndef LAUNCHER_REMOTE_PIPE_H
#define LAUNCHER_REMOTE_PIPE_H

#include "base/loop.h"
#include "launcher/ssh/remote_frame.h"

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

#endif

/* remote_pipe.h: frames over two descriptors, one for each direction: ssh's
 * stdin and stdout on the near side, our own on the far side. Never blocks;
 * what does not go out is queued. Knows no frame's meaning. */
#ifndef LAUNCHER_REMOTE_PIPE_H
#define LAUNCHER_REMOTE_PIPE_H

#include "base/loop.h"
#include "launcher/ssh/remote_frame.h"

struct remote_pipe;

struct remote_pipe_events {
	/* Before remote_pipe_frames: p->rx has more; NULL where frames come
	 * from the first byte on. */
	void (*on_bytes)(struct remote_pipe *p);
	void (*on_frame)(struct remote_pipe *p, const struct remote_frame *f);
	/* Nothing more comes: an end of file (code 0), or why not. Once. */
	void (*on_end)(struct remote_pipe *p, const struct err *why);
	/* What was queued is out; may be NULL. */
	void (*on_sent)(struct remote_pipe *p);
	/* After remote_pipe_close. */
	void (*on_closed)(struct remote_pipe *p);
};

struct remote_pipe {
	void *owner;
	const struct remote_pipe_events *events;
	uv_pipe_t in, out;
	int open;    /* handles that are not closed yet */
	int out_gone; /* nobody reads there any more: all is dropped */
	int framed, paused, ended, closing, cutting;
	struct buf rx, tx, sending;
	uv_write_t write;
	uint64_t heard_ms; /* when something last came, by the loop's clock */
};

/* Takes both descriptors, also when it fails; events and owner are set. */
int remote_pipe_open(struct remote_pipe *p, uv_loop_t *loop, int in, int out,
		     int framed);
/* From here on (in on_bytes) what comes is frames. */
void remote_pipe_frames(struct remote_pipe *p);
void remote_pipe_pause(struct remote_pipe *p, int paused);

void remote_pipe_send(struct remote_pipe *p, uint8_t type, uint32_t host,
		      struct slice body);
/* A body that a buffer holds. One that is not whole, for lack of memory, is not
 * sent: it ends the pipe with on_end, as does a queue that cannot grow. */
void remote_pipe_send_buf(struct remote_pipe *p, uint8_t type, uint32_t host,
			  const struct buf *body);
void remote_pipe_send_bytes(struct remote_pipe *p, struct slice bytes);
/* What came is none of ours, or does not make sense: on_end with why. */
void remote_pipe_break(struct remote_pipe *p, const struct err *why);
/* Bytes that are not out. */
size_t remote_pipe_pending(const struct remote_pipe *p);

/* Our direction ends: the other side reads an end of file. */
void remote_pipe_hang_up(struct remote_pipe *p);
/* Both; on_closed follows. What is queued is lost. */
void remote_pipe_close(struct remote_pipe *p);

#endif

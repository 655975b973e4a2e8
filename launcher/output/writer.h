/* writer.h: one of the launcher's own outputs (stdout, stderr): a queue of
 * bytes that never blocks the loop, and on a terminal one line that is redrawn
 * in place below everything else. Knows no workers. */
#ifndef LAUNCHER_WRITER_H
#define LAUNCHER_WRITER_H

#include "base/buf.h"
#include "base/loop.h"

enum writer_kind {
	/* a file, where write(2) waits for the disk at most; or what cannot be
	 * polled, where it waits for the reader, and the loop with it */
	WRITER_PLAIN,
	WRITER_OWN,    /* a pipe or terminal, opened again as non-blocking */
	WRITER_SOCKET, /* send(2) with MSG_DONTWAIT */
	WRITER_SHARED  /* could not be opened again: polled, small writes */
};

struct writer {
	int fd;
	enum writer_kind kind;
	uv_poll_t poll; /* not for WRITER_PLAIN */
	int polling;
	struct buf queue;
	size_t sent;   /* of the queue's bytes, from the front */
	int broken;    /* the errno that ended it: all is dropped since; or 0 */
	int columns;   /* 0: no terminal */
	int rows;
	struct buf status; /* the line in place; empty: none */
	int status_shown;  /* it stands at the cursor */
	void (*on_room)(void *arg); /* after the queue shrank */
	void *arg;
};

/* fd stays the caller's and open. 0 or -errno. */
int writer_init(struct writer *w, uv_loop_t *loop, int fd);
/* Stops; the loop must run once more before w's memory goes. */
void writer_close(struct writer *w);
void writer_release(struct writer *w);

/* Queues bytes that end with a newline; writer_flush sends what it can. */
void writer_put(struct writer *w, const char *data, size_t n);
/* The same for one worker's line: begin and end are our own, short ones. */
void writer_put_line(struct writer *w, struct slice prefix, const char *begin,
		     struct slice text, const char *end);
void writer_flush(struct writer *w);

/* Replaces the line in place; an empty one removes it. Ignored where the output
 * is no terminal. Escape codes and what is too wide is left out. */
void writer_set_status(struct writer *w, struct slice prefix,
		       struct slice text);

size_t writer_pending(const struct writer *w);

#endif

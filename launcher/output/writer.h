/* writer.h: writes one of the launcher's own outputs (stdout, stderr): queues
 * bytes so that the loop does not block, and on a terminal redraws one line in
 * place below everything else. Knows no workers. */
#ifndef LAUNCHER_WRITER_H
#define LAUNCHER_WRITER_H

#include "base/buf.h"
#include "base/loop.h"

enum writer_kind {
	/* a file: write(2) waits only for the disk. Or a descriptor that cannot
	 * be polled: write(2), and so the loop, waits for the reader */
	WRITER_PLAIN,
	WRITER_OWN,    /* a pipe or terminal, reopened as non-blocking */
	WRITER_SOCKET, /* send(2) with MSG_DONTWAIT */
	WRITER_SHARED  /* could not be reopened: polled, small writes */
};

struct writer {
	int fd;
	enum writer_kind kind;
	uv_poll_t poll; /* not for WRITER_PLAIN */
	int polling;
	struct buf queue;
	size_t sent;   /* bytes written from the queue's front */
	int is_open;   /* the last of writer_put_raw has no newline */
	int broken;    /* errno of a failed write: all output is dropped */
	int columns;   /* 0: no terminal */
	int rows;
	int has_color; /* a terminal, and the user has not switched it off */
	struct buf status; /* the redrawn line; empty: none */
	int status_shown;  /* it is on the terminal, at the cursor */
	void (*on_room)(void *arg); /* after the queue shrank */
	void *arg;
};

/* fd remains the caller's and must stay open. 0 or -errno. */
int writer_init(struct writer *w, uv_loop_t *loop, int fd);
/* Stops; the loop must run once more before w is freed. */
void writer_close(struct writer *w);
void writer_release(struct writer *w);

/* Pure: whether a terminal shows colors, by NO_COLOR (any text switches them
 * off) and TERM (dumb and the vt1 family have none). Either may be NULL. */
int writer_wants_color(const char *no_color, const char *term);

/* Queues bytes that end with a newline; writer_flush sends what it can. */
void writer_put(struct writer *w, const char *data, size_t n);
/* The same for one worker's line; begin and end are short texts of ours. */
void writer_put_line(struct writer *w, struct slice prefix, const char *begin,
		     struct slice text, const char *end);
/* Queues any bytes. What follows by the other two begins on a line of its
 * own. */
void writer_put_raw(struct writer *w, struct slice bytes);
void writer_flush(struct writer *w);

/* Replaces the redrawn line; empty text removes it. Ignored if the output is
 * not a terminal. Leaves out escape codes, and what does not fit the width. */
void writer_set_status(struct writer *w, struct slice prefix,
		       struct slice text);

size_t writer_pending(const struct writer *w);

/* ---- stdout and stderr of this process ---- */

struct writer_pair {
	struct writer writers[2];
	/* the same writer if both are one file or terminal: two queues would
	 * mix parts of lines */
	struct writer *out, *err;
	int has_warned;
};

void writer_pair_init(struct writer_pair *p, uv_loop_t *loop,
		      void (*on_room)(void *arg), void *arg);
size_t writer_pair_pending(const struct writer_pair *p);
/* Warns, once, if stdout fails. A reader that closed its pipe is no failure: it
 * has what it wanted. */
void writer_pair_flush(struct writer_pair *p);
/* Drops what is not written yet. */
void writer_pair_abandon(struct writer_pair *p);
void writer_pair_close(struct writer_pair *p);
void writer_pair_release(struct writer_pair *p);

#endif

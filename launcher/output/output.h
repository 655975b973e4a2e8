/* output.h: owns the launcher's stdout and stderr, and decides when to read
 * from the workers. stream.h reads one worker's stream.
 *
 * A slow reader of our output slows down the workers: we stop reading them
 * while 1 MiB is queued. The queue thus holds at most 3 MiB (the last read adds
 * up to 1 MiB with its prefixes, and may end a line of 1 MiB; the allocation is
 * the next power of two, 4 MiB). A slow file server of the log folder slows
 * them down as well; a server that does not answer does not, and up to 64 MiB
 * wait for it. In addition we hold up to 1 MiB for each stream with an
 * unfinished line, until it is shown, 2 MiB with --collapse, and the contents
 * of the pipes of workers that have just ended. */
#ifndef LAUNCHER_OUTPUT_H
#define LAUNCHER_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "base/sock.h"
#include "launcher/output/collapse.h"
#include "launcher/output/log_writer.h"
#include "launcher/output/log_rules.h"
#include "launcher/output/template.h"
#include "launcher/output/writer.h"

/* ---- the read backoff ----
 *
 * How often to read workers that print little. A worker that writes one line
 * at a time would wake the agent for each line; a read that waits a little
 * finds many. Pure: the caller passes the time. */

enum {
	BACKOFF_WINDOW_MS = 10,
	/* passes that find little, allowed in each window */
	BACKOFF_PASSES = 3,
	/* unused passes are saved up to this number and may be made at once, so
	 * that a burst of lines (all workers have started) is not delayed */
	BACKOFF_SAVED = 64,
	BACKOFF_LITTLE_BYTES = 8 << 10, /* from one stream */
};

/* All zero to begin with. */
struct read_backoff {
	uint64_t from_ms; /* when the window began */
	uint64_t made;    /* passes that time has not paid back yet */
};

/* Accounts a pass that read this many bytes from n streams at now_ms, which
 * never decreases. Returns the ms to wait before the next pass; 0: none. */
uint64_t read_backoff_ms(struct read_backoff *p, uint64_t now_ms, size_t n,
			 size_t bytes);

/* ---- the output ---- */

struct stream;

/* The same for all lines of a round. */
struct output_round {
	uint32_t base_rank, node_rank, world_size;
	/* filtered_*.log; the output takes them */
	struct log_writer copies[2];
};

enum { OUTPUT_PIECE_BYTES = 64 << 10, OUTPUT_PREFIX_MAX = 256 };

struct output {
	uv_loop_t *loop;
	struct writer_pair own; /* the launcher's */
	const struct log_rules *rules;
	struct output_round round;
	struct line_prefix_vars vars;
	char host[SOCK_HOST_MAX];
	/* the streams have an epoll of their own, so that one call stops or
	 * resumes the reading of all of them */
	int epoll;
	uv_poll_t ready;
	uv_timer_t rest;
	uint32_t streams; /* open ones */
	struct read_backoff backoff;
	int watching, resting, paused, closing;
	const struct stream *redrawn; /* its line is redrawn in place */
	int warned_full; /* the user knows that a file failed */
	char *piece; /* buffer of one read */
	struct buf copied[2]; /* queued for round.copies */
	struct collapse *collapse[2]; /* NULL: lines are shown as they come */
	uv_timer_t expire;
	struct stream *held; /* the streams that hold back a part of a line */
	uv_timer_t show_held;
	struct log_queue *queue; /* the log folder's, on a server; or NULL */
	uv_timer_t look; /* at the queue */
	/* The role of a rank, for prefixes; NULL: it is that of output_init. */
	const char *(*role_of)(void *arg, uint32_t rank);
	void *role_arg;
};

/* Takes over stdout, stderr and the log for n workers. rules must outlive o. */
int output_init(struct output *o, uv_loop_t *loop, uint32_t n,
		const struct log_rules *rules, const char *role, struct err *e);
/* A round begins: no stream is open. */
void output_begin(struct output *o, const struct output_round *round);
/* No more lines will come; closes when the last one is written. */
void output_close(struct output *o);
/* Drops everything that is not written yet. */
void output_abandon(struct output *o);
void output_release(struct output *o);

/* The launcher's own lines, on stderr; whole lines only. */
void output_print(struct output *o, const char *text, size_t n);

/* The terminal's size if stdout is a terminal, else 0 and 0. */
void output_terminal(const struct output *o, int *columns, int *rows);

/* The log folder is on a server: reports late writes, and reads the workers no
 * faster than the server writes while it answers. q must outlive the loop. */
void output_watch_queue(struct output *o, struct log_queue *q);

/* A worker gets the terminal (--tty): no line is redrawn in place on it. */
void output_lend_terminal(struct output *o);

/* ---- for stream.c */

/* 0 or -errno. */
int output_watch(struct output *o, struct stream *s);
void output_unwatch(struct output *o, struct stream *s);

/* Shows, or copies to a file, a worker's line in the pieces of lines.h. */
void output_show(struct output *o, struct stream *s, struct slice text,
		 int flags);
void output_copy(struct output *o, struct stream *s, struct slice text,
		 int flags);
/* Sets the line that is redrawn in place; empty: none. */
void output_redraw(struct output *o, struct stream *s, struct slice text);
/* The stream holds back a part of a line, or more of it than before; or holds
 * back nothing any more. */
void output_hold(struct output *o, struct stream *s);
void output_unhold(struct output *o, struct stream *s);
/* Warns, once, that a file cannot be written. why is an errno. */
void output_warn_full(struct output *o, int why);
/* Writes queued lines now, as far as their reader accepts them. */
void output_flush(struct output *o);

#endif

/* output.h: the launcher's own stdout and stderr, what is read from the workers
 * and when. Where lines come from is stream.h's.
 *
 * When those are read too slowly, the workers are read no faster: reading stops
 * at 1 MiB that is not out yet. What is held here is so at most 2 MiB (the last
 * read adds up to 1 MiB with its prefixes; the queue's memory is the next power
 * of two: 4 MiB), 64 KiB for each stream whose last line has no end yet, 1 MiB
 * with --collapse, and what was in the pipes of workers that ended just now. */
#ifndef LAUNCHER_OUTPUT_H
#define LAUNCHER_OUTPUT_H

#include "base/loop.h"
#include "base/sock.h"
#include "launcher/output/collapse.h"
#include "launcher/output/log_rules.h"
#include "launcher/output/pace.h"
#include "launcher/output/prefix.h"
#include "launcher/output/writer.h"

struct stream;

/* What is the same for all lines of a round. */
struct output_round {
	uint32_t base_rank, node_rank, world_size;
	/* filtered_*.log, which the output takes; -1: none */
	int copies[2];
};

enum { OUTPUT_PIECE_BYTES = 64 << 10, OUTPUT_PREFIX_MAX = 256 };

struct output {
	uv_loop_t *loop;
	struct writer writers[2];
	/* both the same where stdout and stderr are one file or terminal: two
	 * queues would tear each other's lines */
	struct writer *out, *err;
	const struct log_rules *rules;
	struct output_round round;
	struct prefix_vars vars;
	char host[SOCK_HOST_MAX];
	/* the streams are watched by an epoll of their own, so that reading
	 * stops and goes on with one call for all of them */
	int epoll;
	uv_poll_t ready;
	uv_timer_t rest;
	uint32_t streams; /* that are open */
	struct pace pace;
	int watching, resting, paused, closing;
	const struct stream *redrawn; /* whose line stands in place */
	int told_lost, told_full; /* that stdout, that files take no more */
	char *piece; /* what one read gets */
	struct buf copied[2]; /* for the round's copies */
	struct collapse *collapse[2]; /* NULL: lines are shown as they come */
	uv_timer_t expire;
};

/* Takes over stdout, stderr and the log's lines, for n workers. rules must
 * outlive o. */
int output_init(struct output *o, uv_loop_t *loop, uint32_t n,
		const struct log_rules *rules, const char *role, struct err *e);
/* A round begins: no stream is open. */
void output_begin(struct output *o, const struct output_round *round);
/* No more lines come; closes when the last is out. */
void output_close(struct output *o);
/* Drops what is not out yet. */
void output_abandon(struct output *o);
void output_release(struct output *o);

/* The launcher's own lines, on stderr; whole lines only. */
void output_print(struct output *o, const char *text, size_t n);

/* The terminal's size where stdout is one, else 0 and 0. */
void output_terminal(const struct output *o, int *columns, int *rows);

/* ---- for stream.c */

/* 0 or -errno. */
int output_watch(struct output *o, struct stream *s);
void output_unwatch(struct output *o, struct stream *s);

/* A worker's line, in pieces as lines.h has them: shown, and copied. */
void output_show(struct output *o, struct stream *s, struct slice text,
		 int flags);
void output_copy(struct output *o, struct stream *s, struct slice text,
		 int flags);
/* The line that stands in place; empty: none. */
void output_redraw(struct output *o, struct stream *s, struct slice text);
/* Files take no more: a warning, once. */
void output_tell_full(struct output *o, int why);
/* Lines are to be seen now, as far as their reader takes them. */
void output_flush(struct output *o);

#endif

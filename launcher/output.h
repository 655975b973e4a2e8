/* output.h: the workers' pipes, and how their lines reach the launcher's own
 * stdout and stderr: whole, in order, with the rank before each. When those are
 * read too slowly, the workers are read no faster. */
#ifndef LAUNCHER_OUTPUT_H
#define LAUNCHER_OUTPUT_H

#include <uv.h>

#include "launcher/lines.h"
#include "launcher/tail.h"
#include "launcher/writer.h"

struct stream;

struct output {
	uv_loop_t *loop;
	struct writer writers[2];
	/* both the same where stdout and stderr are one file or terminal: two
	 * queues would tear each other's lines */
	struct writer *out, *err;
	struct stream *streams; /* those that are open */
	const struct stream *redrawn; /* whose line stands in place */
	int paused;
	int closing;
	int told_lost; /* that stdout takes no more */
	char *piece; /* what one read gets */
};

/* One pipe of one worker. */
struct stream {
	struct output *output;
	struct stream *prev, *next;
	struct writer *writer;
	struct tail *tail; /* NULL: none is kept */
	struct lines lines;
	uv_poll_t poll;
	int fd; /* -1: closed */
	char prefix[16];
	void (*on_closed)(void *arg);
	void *arg;
};

/* Takes over stdout, stderr and the log's lines. 0 or -errno. */
int output_init(struct output *o, uv_loop_t *loop);
/* No more lines come; closes when the last is out. */
void output_close(struct output *o);
/* Drops what is not out yet. */
void output_abandon(struct output *o);
void output_release(struct output *o);

/* The launcher's own lines, on stderr; whole lines only. */
void output_print(struct output *o, const char *text, size_t n);

/* The terminal's size where stdout is one, else 0 and 0. */
void output_terminal(const struct output *o, int *columns, int *rows);

/* Takes the read end of a pipe, on success. on_closed(arg) comes once, from the
 * loop, when s may be used again. */
int stream_open(struct stream *s, struct output *o, int fd, int is_stderr,
		uint32_t rank, struct tail *tail, void (*on_closed)(void *arg),
		void *arg);
/* Reads what is there without waiting for an end that a grandchild may hold
 * open, and shows an unfinished line. */
void stream_drain(struct stream *s);
/* Closes; does nothing if the stream is closed already. */
void stream_close(struct stream *s);

#endif

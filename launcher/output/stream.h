/* stream.h: reads a worker's stdout or stderr from a pipe and cuts it into
 * lines for the console, for files and for the failure report. */
#ifndef LAUNCHER_STREAM_H
#define LAUNCHER_STREAM_H

#include "launcher/output/lines.h"
#include "launcher/output/output.h"

struct stream_setup {
	int fd;   /* the pipe's read end */
	struct log_writer file; /* gets every byte unchanged */
	int is_stderr, shown;
	int is_terminal; /* the worker's end is: bytes are shown unchanged */
	uint32_t rank, local_rank;
	struct tail *tail; /* NULL: none is kept */
	/* called once, when the stream is closed and may be opened again */
	void (*on_closed)(void *arg);
	void *arg;
};

struct stream {
	struct stream_setup of; /* fd -1: closed */
	struct output *output;
	struct writer *writer;
	struct lines lines;
	const char *tail_from; /* older lines of this piece are not kept */
	size_t prefix_len, piece_max;
	char prefix[OUTPUT_PREFIX_MAX];
	const char *color; /* the escape that begins the rank's color, or "" */
	/* while a part of an unfinished line is held back */
	struct stream *held_next, **held_pprev; /* pprev NULL: nothing is */
	/* when its first and its last byte came; loop time */
	uint64_t held_ms, heard_ms;
	int has_ended_line; /* in the last read */
};

/* Takes fd and file, on success. 0 or -errno. */
int stream_open(struct stream *s, struct output *o,
		const struct stream_setup *setup);

/* Reads once; closes the stream at its end. Returns the number of bytes. */
size_t stream_read(struct stream *s);
/* Reads what is in the pipe and shows an unfinished line. Does not wait for the
 * end, since a grandchild may hold the pipe open. */
void stream_drain(struct stream *s);
/* Lines that the worker has not written itself, but that belong here. Does
 * nothing if the stream is closed. */
void stream_say(struct stream *s, struct slice text);
/* What a terminal shows of the line that has not ended yet; valid until the
 * next call on s. Empty if the stream is closed. */
struct slice stream_unfinished(const struct stream *s);
/* Closes; does nothing if the stream is closed already. */
void stream_close(struct stream *s);

/* ---- for output.c ---- */

/* The loop time at which the held part of a line must be shown. */
uint64_t stream_held_due(const struct stream *s);
/* Shows that part; or the whole line, if its end has come by now. */
void stream_show_held(struct stream *s);

#endif

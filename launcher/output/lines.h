/* lines.h: bytes in, whole lines out: cuts a worker's output into lines, and
 * keeps the last ones. Pure. Knows nothing of pipes, ranks or terminals. */
#ifndef LAUNCHER_LINES_H
#define LAUNCHER_LINES_H

#include "base/buf.h"

enum {
	/* A line longer than this is shown in pieces. */
	LINES_MAX = 1 << 20,
};

/* How a piece relates to its line. A line of up to LINES_MAX has neither. */
enum {
	LINES_BEGUN = 1, /* earlier pieces of the same line came before */
	LINES_OPEN = 2,  /* the line continues in the next piece */
	/* What lines_show emits: a state of a line that the program draws over
	 * with \r, and is not its end. */
	LINES_DRAWN = 4,
	/* The line has ended, and LINES_DRAWN has shown all of it. */
	LINES_SHOWN = 8,
};

struct lines {
	struct buf part; /* the unfinished line's bytes so far */
	int begun;       /* earlier pieces of it were emitted */
	/* the program draws over the line: part has no more than the state that
	 * a terminal shows, and what came since */
	int redrawn;
	size_t shown; /* bytes of part that LINES_DRAWN has emitted */
};

/* text has no newline and is valid until return. */
typedef void (*lines_emit)(void *arg, struct slice text, int flags);

void lines_init(struct lines *l);
void lines_release(struct lines *l);

/* Emits every line that data completes, in order. */
void lines_feed(struct lines *l, struct slice data, lines_emit emit, void *arg);

/* The stream ended: emits the unfinished last line, if there is one. */
void lines_end(struct lines *l, lines_emit emit, void *arg);

/* What a terminal would show of the unfinished line when programs redraw it
 * with \r: the last segment that is not empty, valid until the next call on l.
 * data is NULL without any \r. Forgets what was drawn over. */
struct slice lines_redrawn(struct lines *l);

/* Whether a program draws over the unfinished line, or may: a \r at its end can
 * also belong to a newline that follows. */
int lines_is_redrawn(const struct lines *l);

/* The bytes of the unfinished line that were not emitted yet. */
size_t lines_held(const struct lines *l);
/* Emits them before the line's end: as LINES_DRAWN if the program draws over
 * them with \r, else as a piece, LINES_OPEN. */
void lines_show(struct lines *l, lines_emit emit, void *arg);

/* What a terminal still shows of a line: its last nonempty segment between
 * \r's, or all of text if it has no \r. */
struct slice lines_last_segment(struct slice text);

/* ---- the last lines of a stream, for the failure report and for users ---- */

enum {
	TAIL_LINES = 64, /* a sanitizer says more after what is wrong */
	TAIL_SHOWN = 20, /* to people */
	TAIL_BYTES = 8 << 10,
};

/* Takes no memory until there is a line, and never more than its maximum. */
struct tail {
	struct buf text; /* whole lines, each with its newline */
	int lines;
};

/* max: TAIL_BYTES, or less. */
void tail_init(struct tail *t, size_t max);
void tail_release(struct tail *t);
void tail_clear(struct tail *t);

/* Adds a line (without its newline), or its end if it is too long. */
void tail_add(struct tail *t, struct slice line);

/* The lines, oldest first, valid until the next call on t. */
struct slice tail_text(const struct tail *t);

/* The last n lines of text; an unfinished line counts as one. */
struct slice tail_last(struct slice text, uint32_t n);

#endif

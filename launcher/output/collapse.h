/* collapse.h: merges identical lines from many ranks into one. Each rank's
 * lines keep their order, and none is lost or invented. Pure: lines and the
 * time in, lines out. Holds at most COLLAPSE_LINES lines and COLLAPSE_BYTES of
 * text. */
#ifndef LAUNCHER_COLLAPSE_H
#define LAUNCHER_COLLAPSE_H

#include <stdint.h>

#include "base/buf.h"

enum {
	COLLAPSE_HOLD_MS = 100, /* the longest that a line waits for ranks */
	COLLAPSE_LINES = 256,
	COLLAPSE_BYTES = 1 << 20, /* at least LINES_MAX */
};

/* A line, and the ranks that printed it: a bit set of indices 0 to n-1. */
struct collapse_line {
	struct buf text;
	int flags; /* as in lines.h; lines with other flags never merge */
	uint64_t hash, *who;
	uint32_t missing; /* open ranks that have not printed it yet */
	uint64_t until_ms;
};

typedef void (*collapse_emit)(void *arg, const struct collapse_line *line);

struct collapse {
	struct collapse_line lines[COLLAPSE_LINES]; /* a ring */
	uint64_t first, next; /* numbers of the oldest and of the next line */
	uint64_t *last;  /* for each rank: its last line's number, plus 1 */
	uint64_t *bits;
	uint32_t n;      /* ranks */
	uint32_t open;   /* ranks that may still print */
	size_t bytes;
	collapse_emit emit;
	void *arg;
};

/* For n ranks, all closed at first. 0 or -ENOMEM. The line passed to emit is
 * valid until emit returns. */
int collapse_init(struct collapse *c, uint32_t n, collapse_emit emit,
		  void *arg);
void collapse_release(struct collapse *c);

/* Rank i starts to print, or will not print again. A line waits until every
 * open rank has printed it. */
void collapse_open(struct collapse *c, uint32_t i);
void collapse_close(struct collapse *c, uint32_t i);

/* Adds a line of rank i. May call emit. */
void collapse_add(struct collapse *c, uint32_t i, struct slice text, int flags,
		  uint64_t now_ms);

/* Emits the lines that waited for COLLAPSE_HOLD_MS. */
void collapse_expire(struct collapse *c, uint64_t now_ms);
/* Emits everything. */
void collapse_flush(struct collapse *c);

/* 1 if a line is held; *until_ms is then when collapse_expire is due. */
int collapse_holds(const struct collapse *c, uint64_t *until_ms);

/* Appends a line's ranks, base added to each, as in "0,2,5-7", and a NUL that
 * is not counted. */
void collapse_put_ranks(struct buf *out, const struct collapse *c,
			const struct collapse_line *line, uint32_t base);

#endif

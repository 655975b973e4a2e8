/* collapse.h: identical lines of many ranks become one. Each rank's own order
 * is kept, nothing is lost, nothing invented. Pure: lines and the time in,
 * lines out. Holds at most COLLAPSE_LINES lines and COLLAPSE_BYTES of text. */
#ifndef LAUNCHER_COLLAPSE_H
#define LAUNCHER_COLLAPSE_H

#include <stdint.h>

#include "base/buf.h"

enum {
	COLLAPSE_HOLD_MS = 100, /* a line waits no longer for other ranks */
	COLLAPSE_LINES = 256,
	COLLAPSE_BYTES = 512 << 10,
};

/* A line, and who said it: indices 0 to n-1 as a set of bits. */
struct collapse_line {
	struct buf text;
	int flags; /* of lines.h; lines that differ in them are different */
	uint64_t hash, *who;
	uint32_t missing; /* of those who may still say it */
	uint64_t until_ms;
};

typedef void (*collapse_emit)(void *arg, const struct collapse_line *line);

struct collapse {
	struct collapse_line lines[COLLAPSE_LINES]; /* a ring */
	uint64_t first, next; /* numbers of the oldest and of the next line */
	uint64_t *last;  /* of each rank: its last line's number, plus 1 */
	uint64_t *bits;
	uint32_t n;      /* ranks */
	uint32_t open;   /* of them may still say something */
	size_t bytes;
	collapse_emit emit;
	void *arg;
};

/* For n ranks, none of which is open. 0 or -ENOMEM. emit's line is valid until
 * it returns. */
int collapse_init(struct collapse *c, uint32_t n, collapse_emit emit,
		  void *arg);
void collapse_release(struct collapse *c);

/* Rank number i begins to speak, or will say no more: a line that all who are
 * open have said waits no longer. */
void collapse_open(struct collapse *c, uint32_t i);
void collapse_close(struct collapse *c, uint32_t i);

/* Rank number i says a line. Lines come out from in here, too. */
void collapse_add(struct collapse *c, uint32_t i, struct slice text, int flags,
		  uint64_t now_ms);

/* Emits what waited long enough. */
void collapse_expire(struct collapse *c, uint64_t now_ms);
/* Emits everything. */
void collapse_flush(struct collapse *c);

/* 1 if a line is held; *until_ms: when collapse_expire has work. */
int collapse_holds(const struct collapse *c, uint64_t *until_ms);

/* "0,2,5-7" of a line's ranks, each raised by base. Appends, with a NUL that
 * is not counted. */
void collapse_put_ranks(struct buf *out, const struct collapse *c,
			const struct collapse_line *line, uint32_t base);

#endif

/* tail.h: the last lines of a stream, for the failure report.
 * Pure. Costs nothing until there is a line, and never more than TAIL_BYTES. */
#ifndef LAUNCHER_TAIL_H
#define LAUNCHER_TAIL_H

#include "base/buf.h"

enum { TAIL_LINES = 20, TAIL_BYTES = 8 << 10 };

struct tail {
	struct buf text; /* whole lines, each with its newline */
	int lines;
};

void tail_init(struct tail *t);
void tail_release(struct tail *t);
void tail_clear(struct tail *t);

/* Adds a line (without its newline), or its end if it is too long. */
void tail_add(struct tail *t, struct slice line);

/* The lines, oldest first, valid until the next call on t. */
struct slice tail_text(const struct tail *t);

#endif

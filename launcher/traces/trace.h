/* trace.h: the calls that the ranks of a job recorded, gathered after the fact,
 * and the first one in which they differ. Pure. */
#ifndef LAUNCHER_TRACE_H
#define LAUNCHER_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { TRACE_WORDS_MAX = 320, TRACE_WHERE_MAX = 256 };

/* A call in which all ranks of a group take part. */
struct trace_call {
	uint32_t rank;
	uint64_t group;	 /* the same on all of its ranks */
	uint64_t number; /* in its group */
	uint64_t same;	 /* equal if the calls fit each other */
	char *words;	 /* "all_reduce #23 (f32 x 4096, avg)" */
	char *where;	 /* in the program; "" if it is not known */
};

struct trace {
	struct trace_call *calls;
	size_t n, room;
};

void trace_release(struct trace *t);
/* Copies c. 0 or -ENOMEM. */
int trace_add(struct trace *t, const struct trace_call *c);

/* FNV-1a of some bytes, from the hash of those before them, or 0. */
uint64_t trace_hash(uint64_t before, struct slice bytes);

/* For each group whose ranks made different calls, lines about the first:
 *
 *	mismatch: ranks made different calls
 *	  all_reduce #23 (f32 x 4096, avg): ranks 0, 2, 3 (train.py:88 step())
 *	  broadcast #23 (f32 x 4096, root 0): rank 1 (train.py:91 step())
 *
 * Sorts t. */
void trace_put_mismatches(struct buf *out, struct trace *t);

/* "rank 3", "ranks 0-2, 5": of n numbers in ascending order, some of which may
 * be equal. */
void trace_put_ranks(struct buf *out, const uint32_t *ranks, size_t n);

#endif

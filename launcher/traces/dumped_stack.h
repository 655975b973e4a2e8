/* dumped_stack.h: the stack of one rank in the text that `ddprun dump` prints,
 * for the failure page of a rank that hangs. */
#ifndef LAUNCHER_DUMPED_STACK_H
#define LAUNCHER_DUMPED_STACK_H

#include "base/buf.h"

enum { DUMPED_STACK_FRAMES = 24 }; /* the innermost, native and Python's each */

/* Pure: appends the first thread's frames as lines of the page: "#0 step at
 * w.c:8", then Python's, "#py0 step at /w/train.py:25". Nothing without that
 * rank. */
void dumped_stack_put(struct buf *out, struct slice dump, uint32_t rank);
/* The same from a file, which may hold several dumps: the last counts. */
void dumped_stack_read(const char *path, uint32_t rank, struct buf *out);

#endif

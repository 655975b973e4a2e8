/* attempts.h: how each attempt of the job ended, as this node saw it: the list
 * on the failure page and in report.json. */
#ifndef LAUNCHER_ATTEMPTS_H
#define LAUNCHER_ATTEMPTS_H

#include <stdint.h>

#include "base/buf.h"
#include "rendezvous/wire.h"

enum { ATTEMPTS_MAX = 1000 }; /* the oldest are dropped */

struct attempt {
	uint32_t attempt; /* from 0 */
	int64_t ended_ms; /* unix time at which this node learned of it */
	int32_t rank;     /* that failed first; -1: none */
	uint32_t local_rank;
	int64_t pid;
	int32_t code, signal;
	int hangs;
	uint64_t ran_ms;
	char *host, *text; /* NULL: no memory */
	char *swap; /* the node that a spare replaced then; or "", or NULL */
};

struct attempts {
	struct attempt *list; /* oldest first */
	uint32_t n, capacity;
};

void attempts_release(struct attempts *a);

/* END ended that attempt; it replaces an entry for the same death. Without
 * memory the attempt is left out. */
void attempts_add(struct attempts *a, const struct wire_end *end,
		  uint32_t attempt, int64_t ended_ms);

/* Appends "rank 1 on h2 exited with code 3: boom", cut to max bytes. */
void attempt_put_cause(struct buf *out, const struct attempt *a, size_t max);

#endif

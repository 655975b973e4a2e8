/* deadlock.h: finds, from the calls of all ranks of a job, ranks that wait for
 * each other. Pure. */
#ifndef LAUNCHER_DEADLOCK_H
#define LAUNCHER_DEADLOCK_H

#include <stddef.h>

#include "rendezvous/wire.h"

struct deadlock_call {
	struct wire_call call;
	const char *host;
};

/* The shortest circle of ranks each of which waits for the next, as lines; no
 * line if there is none. A rank that sleeps in a call waits for the peer of its
 * message, unless the peer has begun the other half; in a collective, for each
 * rank that has not entered it. -ENOMEM. */
int deadlock_put(struct buf *out, const struct deadlock_call *calls, size_t n);

#endif

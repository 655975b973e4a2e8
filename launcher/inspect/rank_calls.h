/* rank_calls.h: the calls of this host's ranks, as a node sends them for a
 * dump: how far each is in its communicators, and the call that it waits in. A
 * wait is a call that a rank was in at two moments: ranks of a job that makes
 * progress are in some call at most moments. */
#ifndef LAUNCHER_RANK_CALLS_H
#define LAUNCHER_RANK_CALLS_H

#include "base/buf.h"
#include "launcher/inspect/local_workers.h"

enum { RANK_CALLS_MS = 100 }; /* between the two moments */

/* The call that a worker was in at the first moment. */
struct rank_moment {
	pid_t pid;
	uint64_t ticket; /* the call's ticket; 0: no call */
	double cpu_s;
};

struct rank_moments {
	struct rank_moment *list;
	size_t n;
};

/* Returns how many workers are in a call; 0 also without memory: then nothing
 * waits. */
size_t rank_moments_init(struct rank_moments *m, const struct local_workers *l);
void rank_moments_release(struct rank_moments *m);

/* Appends the items of n workers from i on, at the second moment. Returns how
 * many items. */
uint32_t rank_calls_put(struct buf *items, const struct local_workers *l,
			size_t i, size_t n, const struct rank_moments *before);

#endif

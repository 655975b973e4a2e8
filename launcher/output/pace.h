/* pace.h: how often the workers are read when each time finds little. Who
 * writes a line at a time would wake the agent for each; a read that waits a
 * little finds many lines. Pure: the clock is the caller's. */
#ifndef LAUNCHER_PACE_H
#define LAUNCHER_PACE_H

#include <stddef.h>
#include <stdint.h>

enum {
	PACE_WINDOW_MS = 10,
	/* passes that find little, in each window; */
	PACE_PASSES = 3,
	/* those that were not made in quiet times may be made at once, so that
	 * lines which come together (all workers have started) are not late */
	PACE_SAVED = 64,
	PACE_LITTLE_BYTES = 8 << 10, /* of one stream */
};

/* All zero to begin with. */
struct pace {
	uint64_t from_ms; /* when the window began */
	uint64_t made;    /* passes that are not made up for by time yet */
};

/* A pass over n streams found so many bytes, at now_ms, which never goes back.
 * How many ms the next is to wait; 0: none. */
uint64_t pace_rest(struct pace *p, uint64_t now_ms, size_t n, size_t bytes);

#endif

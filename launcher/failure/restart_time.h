/* restart_time.h: how long it takes from the end of a round to the next one's
 * workers, and on what. Pure. */
#ifndef LAUNCHER_RESTART_TIME_H
#define LAUNCHER_RESTART_TIME_H

#include <stddef.h>
#include <stdint.h>

enum { RESTART_TIME_TEXT_MAX = 160 };

/* In nanoseconds of one clock; ended is 0 where no round was before. */
struct restart_time {
	uint64_t ended; /* the server said so */
	uint64_t empty; /* no process of the round is left */
	uint64_t start; /* the next round begins */
};

/* "running again after 2.2 ms (stop 0.2, rendezvous 0.4, start 1.6)" into
 * out[RESTART_TIME_TEXT_MAX]; returns out. */
const char *restart_time_text(const struct restart_time *t, uint64_t now,
			      char *out);

#endif

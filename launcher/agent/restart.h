/* restart.h: how long a restart waits (--restart-backoff), and how long it
 * took. Pure. */
#ifndef LAUNCHER_RESTART_H
#define LAUNCHER_RESTART_H

#include <stdint.h>

enum {
	RESTART_TIME_TEXT_MAX = 160,
	RESTART_BACKOFF_MAX_S = 300, /* unless the first wait is longer */
	RESTART_STEADY_S = 600, /* after workers ran this long, waits start
				 * over */
};

/* All nodes compute the same waits, because the server's END is the same for
 * all; the round begins when the last node has joined. */
struct restart_backoff {
	uint64_t first_ms; /* 0: no waits */
	uint64_t wait_ms;  /* the last wait */
};

/* seconds: 0 to 1e9. */
void restart_backoff_init(struct restart_backoff *b, double seconds);
/* A worker failed after ran_ms. Returns how long to wait before the restart. */
uint64_t restart_backoff_next(struct restart_backoff *b, uint64_t ran_ms);

/* When a restart passed its stages, in nanoseconds of one clock. */
struct restart_time {
	uint64_t ended;  /* the server ended the round; 0: there was none */
	uint64_t empty;  /* no process of the round is left */
	uint64_t joined; /* the backoff is over */
	uint64_t start;  /* the next round begins */
};

/* "running again after 2.2 ms (stop 0.2, rendezvous 0.4, start 1.6)" into
 * out[RESTART_TIME_TEXT_MAX]; returns out. With has_waited the text also gives
 * the wait. */
const char *restart_time_text(const struct restart_time *t, int has_waited,
			      uint64_t now, char *out);

#endif

/* pair.h: which nodes measure their network together, and the measurement over
 * a proved connection: the caller asks, and the listener answers until the
 * caller says goodbye. Neither sends secrets. */
#ifndef SDK_CHECK_PAIR_H
#define SDK_CHECK_PAIR_H

#include <stdint.h>

#include "base/error.h"

struct pair_options {
	int pings;
	int transfer_ms; /* each direction sends for about this long */
	uint64_t transfer_max; /* bytes of one transfer, at most */
	int silence_ms; /* then the other node counts as silent */
};

struct pair_result {
	double rtt_us;	    /* the shortest round trip */
	double out_mbytes_s, in_mbytes_s; /* in this direction, and back */
	double clock_ms;    /* how far the listener's clock is ahead */
};

/* fd: non-blocking, stays the caller's. 0, or -ETIMEDOUT (silent for too long),
 * -EPIPE (closed), ERR_PROTOCOL, or another -errno. */
int pair_measure(int fd, const struct pair_options *o, struct pair_result *r);
/* The listener's side; first_ms: how long the caller may take to begin. */
int pair_serve(int fd, const struct pair_options *o, int first_ms);

/* ---- which nodes measure together ----
 *
 * A round-robin tournament by the circle method: each pair meets once, and no
 * node is in two pairs at a time. Pure. */

/* n - 1 for an even number of nodes, else n: then one node rests in each
 * round. */
int round_robin_rounds(int n);

/* The partner of node `me` in that round; -1: it rests. */
int round_robin_partner(int n, int round, int me);

#endif

/* slow.h: which rank or node slows a round down: the rank that waits least in
 * collectives of all ranks, or of one of its groups, if the others wait much
 * longer for it. Pure. */
#ifndef RENDEZVOUS_SLOW_H
#define RENDEZVOUS_SLOW_H

#include "rendezvous/stall/stall.h"

enum {
	/* In thousandths of the time. A line is due when the share has been
	 * above the first for a minute, and a line that it is over when it is
	 * below the second. */
	SLOW_SHARE = 200,
	SLOW_SHARE_OVER = 100,
	SLOW_PATIENCES = 2, /* in that minute, which is also the agents' */
};

struct slow {
	int has_rank; /* that is above the first */
	int is_shown; /* a line has named it */
	uint32_t rank;
	uint64_t since_ms;
};

struct slow_news {
	int is_slow, is_over; /* a line is due: the fields below are set */
	uint32_t rank;
	uint32_t share; /* its share of the time for which the others wait */
	char text[STALL_TEXT_MAX];
	/* always: the rank that waits least, and its share */
	int has_slowest; /* 0: not known yet */
	uint32_t slowest, slowest_share;
};

/* Call it after reports. s begins as {0} with each round. */
void slow_check(struct slow *s, const struct stall *ranks, uint64_t now_ms,
		struct slow_news *out);

#endif

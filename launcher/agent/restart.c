/* restart.c: the wait before a restart, and the time that a restart took. */
#include "launcher/agent/restart.h"

#include <stdio.h>

/* ---- the wait ---- */

void restart_backoff_init(struct restart_backoff *b, double seconds)
{
	*b = (struct restart_backoff){(uint64_t)(seconds * 1000), 0};
}

uint64_t restart_backoff_next(struct restart_backoff *b, uint64_t ran_ms)
{
	uint64_t limit = RESTART_BACKOFF_MAX_S * 1000;

	if (limit < b->first_ms)
		limit = b->first_ms;
	if (!b->wait_ms || ran_ms >= RESTART_STEADY_S * 1000)
		b->wait_ms = b->first_ms;
	else if (b->wait_ms > limit / 2)
		b->wait_ms = limit;
	else
		b->wait_ms *= 2;
	return b->wait_ms;
}

/* ---- the time ---- */

/* If a round ends again while nodes are joining it, its times are out of
 * order. */
static double ms_between(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e6 : 0;
}

const char *restart_time_text(const struct restart_time *t, int has_waited,
			      uint64_t now, char *out)
{
	char backoff[40] = "";

	if (has_waited)
		snprintf(backoff, sizeof(backoff), "backoff %.1f, ",
			 ms_between(t->empty, t->joined));
	snprintf(out, RESTART_TIME_TEXT_MAX, "running again after %.1f ms "
		 "(stop %.1f, %srendezvous %.1f, start %.1f)",
		 ms_between(t->ended, now), ms_between(t->ended, t->empty),
		 backoff, ms_between(t->joined, t->start),
		 ms_between(t->start, now));
	return out;
}

/* restart_time.c: times as text. */
#include "launcher/failure/restart_time.h"

#include <stdio.h>

static double ms(uint64_t from, uint64_t to)
{
	return (double)(to - from) / 1e6;
}

const char *restart_time_text(const struct restart_time *t, uint64_t now,
			      char *out)
{
	snprintf(out, RESTART_TIME_TEXT_MAX, "running again after %.1f ms "
		 "(stop %.1f, rendezvous %.1f, start %.1f)", ms(t->ended, now),
		 ms(t->ended, t->empty), ms(t->empty, t->start),
		 ms(t->start, now));
	return out;
}

/* clock.h: monotonic time. Wall-clock time is for people only. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ms(void)
{
	return clock_ns() / 1000000u;
}

/* A sleep of ms that began at `from` took seconds longer: this process was
 * stopped meanwhile (Ctrl-Z, Slurm's suspend). The peer it waits for may have
 * been stopped too, so its timeout starts again. */
static inline int clock_was_stopped(uint64_t from, int ms)
{
	return clock_ns() - from > ((uint64_t)ms + 2000) * 1000000u;
}

#endif

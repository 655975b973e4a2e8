/* stopped_clock.h: a clock for tests linked with -Wl,--wrap=clock_gettime. It
 * stops, advances with each call, or jumps, as it does for a process that was
 * stopped (SIGSTOP) while it waited. */
#ifndef TESTS_STOPPED_CLOCK_H
#define TESTS_STOPPED_CLOCK_H

#include <time.h>

static long now_ms = 1000000, goes; /* goes: so much with each look */

int __wrap_clock_gettime(clockid_t id, struct timespec *t);

int __wrap_clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	now_ms += goes;
	*t = (struct timespec){now_ms / 1000, now_ms % 1000 * 1000000};
	return 0;
}

/* In its first wait this process is stopped for 15 minutes; from the second on
 * the other rank, whose next step this is, goes on. NULL: nobody is stopped. */
static void (*other_goes_on)(void);
static int sleeps; /* waits since stop_until */

static inline void stop_until(void (*other)(void))
{
	goes = 1; /* spins end */
	sleeps = 0;
	other_goes_on = other;
}

/* For a wait: 1, and in the first one this process was stopped meanwhile;
 * 0: wait as ever. */
static inline int is_stopped(void)
{
	void (*other)(void) = other_goes_on;

	if (!other)
		return 0;
	if (!sleeps++) {
		now_ms += 900 * 1000;
		return 1;
	}
	other_goes_on = NULL; /* it may wait as well */
	other();
	other_goes_on = other;
	return 1;
}

#endif

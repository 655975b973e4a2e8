/* crash_masks.c: is called in place of libc's functions that block signals. The
 * kernel kills a thread at once if it blocks the signal of its own fault: no
 * handler runs. Many libraries block all signals in their threads. */
#include "launcher/crash/crash_internal.h"
#include "launcher/crash/crash_kernel.h"

#if defined(__x86_64__) || defined(__aarch64__)

#define KEPT __attribute__((visibility("default")))

WEAK int *__errno_location(void);

typedef int mask_fn(int, const sigset_t *, sigset_t *);

static struct {
	mask_fn *sigprocmask, *pthread_sigmask;
} masks;

static uint64_t crash_masks_bit(int number)
{
	return UINT64_C(1) << (number - 1);
}

/* Those of a fault whose action is the default for the program. */
static uint64_t crash_masks_faults(void)
{
	return crash_caught() &
	       (crash_masks_bit(SIGSEGV) | crash_masks_bit(SIGBUS) |
		crash_masks_bit(SIGFPE) | crash_masks_bit(SIGILL));
}

void crash_masks_begin(void)
{
	masks.sigprocmask = (mask_fn *)crash_find_next("sigprocmask");
	masks.pthread_sigmask = (mask_fn *)crash_find_next("pthread_sigmask");
}

void crash_masks_unblock(void)
{
	uint64_t faults = crash_masks_faults();

	CALL(SYS_rt_sigprocmask, SIG_UNBLOCK, &faults, NULL, sizeof(faults));
}

/* next's answer; without one, a negative errno. */
static int crash_masks_set(mask_fn *next, int how, const sigset_t *set,
			   sigset_t *old)
{
	sigset_t own;

	if (set && how != SIG_UNBLOCK) {
		own = *set;
		*(uint64_t *)&own &= ~crash_masks_faults();
		set = &own;
	}
	return next ? next(how, set, old)
		    : (int)CALL(SYS_rt_sigprocmask, how, set, old,
				sizeof(uint64_t));
}

KEPT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int rc;

	if (!masks.sigprocmask)
		crash_masks_begin();
	rc = crash_masks_set(masks.sigprocmask, how, set, old);
	if (masks.sigprocmask || rc == 0)
		return rc;
	if (__errno_location)
		*__errno_location() = -rc;
	return -1;
}

KEPT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	int rc;

	if (!masks.pthread_sigmask)
		crash_masks_begin();
	rc = crash_masks_set(masks.pthread_sigmask, how, set, old);
	return rc < 0 ? -rc : rc;
}

#endif

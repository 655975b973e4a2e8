/* random.c: getrandom, which returns up to 256 bytes completely or not at all.
 */
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"

enum {
	WHOLE_MAX = 256,
	BOOT_MS = 60000, /* for a host that has just booted */
	RETRY_NS = 20000000,
};

/* A kernel that has no entropy yet lets getrandom wait without a limit, in
 * silence. So ask it without waiting, again and again. */
static ssize_t random_get(void *out, size_t n)
{
	const struct timespec pause = {.tv_nsec = RETRY_NS};
	uint64_t until = 0;
	ssize_t got;

	while ((got = getrandom(out, n, GRND_NONBLOCK)) < 0) {
		if (errno != EINTR && errno != EAGAIN)
			break;
		if (!until)
			until = clock_ms() + BOOT_MS;
		if (clock_ms() >= until) {
			errno = EAGAIN;
			break;
		}
		nanosleep(&pause, NULL);
	}
	return got;
}

int random_bytes(void *out, size_t n, struct err *e)
{
	if (n > WHOLE_MAX)
		return err_set(e, ERR_INTERNAL,
			       "random_bytes: %zu bytes are too many", n);
	if (random_get(out, n) >= 0)
		return 0;
	if (errno == EAGAIN)
		return err_set(e, -EAGAIN,
			       "the kernel has had no random bytes for %d s: "
			       "this host has just booted and has no source of "
			       "entropy; try again later, or give it one "
			       "(virtio-rng, rngd)", BOOT_MS / 1000);
	return err_set(e, -errno, "cannot get random bytes: %s",
		       strerror(errno));
}

int random_hex(char *out, size_t n, struct err *e)
{
	unsigned char bytes[WHOLE_MAX];
	int rc = random_bytes(bytes, n, e);

	for (size_t i = 0; rc == 0 && i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return rc;
}

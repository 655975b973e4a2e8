/* random.c: getrandom, which returns up to 256 bytes completely or not at all.
 */
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { WHOLE_MAX = 256 };

int random_bytes(void *out, size_t n, struct err *e)
{
	ssize_t got;

	if (n > WHOLE_MAX)
		return err_set(e, ERR_INTERNAL,
			       "random_bytes: %zu bytes are too many", n);
	/* EINTR is only possible while the host boots and getrandom blocks */
	do {
		got = getrandom(out, n, 0);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_set(e, -errno, "cannot get random bytes: %s",
			       strerror(errno));
	return 0;
}

int random_hex(char *out, size_t n, struct err *e)
{
	unsigned char bytes[WHOLE_MAX];
	int rc = random_bytes(bytes, n, e);

	for (size_t i = 0; rc == 0 && i < n; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return rc;
}

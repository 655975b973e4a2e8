/* random.h: cryptographically secure random bytes, from the kernel. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>

#include "base/error.h"

/* n is at most 256. The only errors are the kernel's; -EAGAIN: it has had no
 * entropy for 60 s. */
MUST_CHECK int random_bytes(void *out, size_t n, struct err *e);

/* n bytes as 2n hex digits and a NUL. */
MUST_CHECK int random_hex(char *out, size_t n, struct err *e);

#endif

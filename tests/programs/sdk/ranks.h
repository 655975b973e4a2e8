/* ranks.h: how a rank of a test program prints its rank, and exits on an error.
 * rank and size are set once it has joined. */
#ifndef TESTS_SDK_RANKS_H
#define TESTS_SDK_RANKS_H

#include <stdio.h>
#include <stdlib.h>

#include "worker-sdk/ddp.h"

static int rank, size;

#define DIE(...)                                                              \
	(fprintf(stderr, "rank %d of %d: ", rank, size),                      \
	 fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), exit(1))

static inline void must(int rc, const char *what)
{
	if (rc)
		DIE("%s: %d: %s", what, rc, ddp_last_error());
}

#endif

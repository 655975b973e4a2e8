/* peers.h: how the transports name other ranks and learn what became of them,
 * without knowing the communicator or the server. */
#ifndef SDK_PEERS_H
#define SDK_PEERS_H

#include <stddef.h>

#include "base/error.h"
#include "base/flight.h"

enum { DDP__NAME_MAX = 96 };

struct ddp__peers {
	void *owner;
	/* "rank 3 on h1" into out[DDP__NAME_MAX]; returns out. */
	char *(*name)(void *owner, int rank, char *out);
	/* Rank is gone or closed its connection; seen says what was seen
	 * ("rank 3 on h1 is gone"). Asks what became of it, waits up to 2 s for
	 * that, sets *e to ERR_REMOTE and returns it. With seen NULL nothing
	 * was seen: does not wait, and returns 0 if nothing became of it. */
	int (*fate)(void *owner, int rank, const char *seen, struct err *e);
	/* "last seen entering barrier #1531" into out[FLIGHT_TEXT_MAX]; "" if
	 * that is not known; returns out. The pointer may be NULL. */
	char *(*last)(void *owner, int rank, char *out);
};

#endif

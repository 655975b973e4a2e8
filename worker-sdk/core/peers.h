/* peers.h: how the transports name other ranks and learn what became of them,
 * without knowing the communicator or the server. */
#ifndef SDK_PEERS_H
#define SDK_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/flight_recorder.h"

struct ddp__call;

enum {
	DDP__NAME_MAX = 96,
	/* So long a rank stands still before it counts as blocked. */
	DDP__BLOCKED_MS = 400
};

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
	/* This rank stands still in a collective, in a call that returns only
	 * at its end: 0, or why it never will (detector.h). from: the rank that
	 * it waits for, or enum ddp__from. The pointer may be NULL. */
	int (*blocked)(void *owner, const struct ddp__call *call, int from,
		       struct err *e);
	/* After any of these: it goes on. */
	void (*unblocked)(void *owner);
	/* What a blocked rank of another host says: struct ddp__blocked. */
	void (*heard)(void *owner, const void *bytes, size_t size);
};

/* Beside a rank. */
enum ddp__from {
	DDP__FROM_HOST = -1, /* those of its host who have not come */
	DDP__FROM_OTHERS = -2 /* other hosts */
};

/* A wait in which a rank may be blocked. */
struct ddp__standstill {
	const struct ddp__peers *peers;
	int told; /* that it is */
};

/* Now and then while it stands still, since waited_ns: blocked's result. */
static inline int ddp__stands_still(struct ddp__standstill *w,
				    const struct ddp__call *call, int from,
				    uint64_t waited_ns, struct err *e)
{
	if (!w->peers->blocked ||
	    waited_ns < DDP__BLOCKED_MS * UINT64_C(1000000))
		return 0;
	w->told = 1;
	return w->peers->blocked(w->peers->owner, call, from, e);
}

/* It ended well, or is not the only thing that is waited for. */
static inline void ddp__goes_on(const struct ddp__standstill *w)
{
	if (w->told)
		w->peers->unblocked(w->peers->owner);
}

#endif

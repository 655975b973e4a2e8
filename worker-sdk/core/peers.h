/* peers.h: lets transports name other ranks and ask why they left, without
 * knowing the communicator or the server. */
#ifndef SDK_PEERS_H
#define SDK_PEERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/flight_recorder.h"

struct ddp__call;

enum {
	DDP__NAME_MAX = 96,
	/* A rank that has waited this long counts as blocked. */
	DDP__BLOCKED_MS = 400
};

struct ddp__peers {
	void *owner;
	/* Writes "rank 3 on h1" to out[DDP__NAME_MAX]; returns out. */
	char *(*name)(void *owner, int rank, char *out);
	/* The rank is gone or closed its connection; seen describes the
	 * observation ("rank 3 on h1 is gone"). Asks the server for the cause,
	 * sets *e to ERR_REMOTE and returns it. Waits up to 10 s, or, while
	 * that rank's agent is silent, until its lease ends. seen NULL: nothing
	 * was observed; does not wait, and returns 0 if nothing is known. */
	int (*fate)(void *owner, int rank, const char *seen, struct err *e);
	/* The rank, which may be alive, cannot be reached. As fate, but waits
	 * up to 2 s, and sets *e to ERR_SYSTEM and seen if nothing is known. */
	int (*unreached)(void *owner, int rank, const char *seen,
			 struct err *e);
	/* Writes "last seen entering barrier #1531", or "" if unknown, to
	 * out[FLIGHT_TEXT_MAX]; returns out. The pointer may be NULL. */
	char *(*last)(void *owner, int rank, char *out);
	/* This rank waits in a blocking collective: 0, or the reason why it can
	 * never complete (detector.h). from: the rank that it waits for, or an
	 * enum ddp__from. The pointer may be NULL. */
	int (*blocked)(void *owner, const struct ddp__call *call, int from,
		       struct err *e);
	/* The wait that was reported to `blocked` is over. */
	void (*unblocked)(void *owner);
	/* A struct ddp__blocked arrived from another host. */
	void (*heard)(void *owner, const void *bytes, size_t size);
};

/* Values for `from` that are not a rank. */
enum ddp__from {
	DDP__FROM_HOST = -1, /* ranks of this host that have not arrived */
	DDP__FROM_OTHERS = -2 /* other hosts */
};

/* A wait in which a rank may be blocked. */
struct ddp__standstill {
	const struct ddp__peers *peers;
	int is_reported; /* `blocked` was called */
};

/* Call this repeatedly during a wait, with its length so far in waited_ns.
 * Returns the result of `blocked`. */
static inline int ddp__stands_still(struct ddp__standstill *w,
				    const struct ddp__call *call, int from,
				    uint64_t waited_ns, struct err *e)
{
	if (!w->peers->blocked ||
	    waited_ns < DDP__BLOCKED_MS * UINT64_C(1000000))
		return 0;
	w->is_reported = 1;
	return w->peers->blocked(w->peers->owner, call, from, e);
}

/* The wait has ended, or this rank no longer waits for it alone. */
static inline void ddp__goes_on(const struct ddp__standstill *w)
{
	if (w->is_reported)
		w->peers->unblocked(w->peers->owner);
}

#endif

/* blocked.h: what a rank does that is blocked (deadlock.h): it says so to the
 * ranks of its host, on its board in the world's shared memory, and reads what
 * they say. A circle that it finds twice, unchanged, it writes on its board,
 * for the others of the circle, and all of them fail with the same text. Each
 * fails two communicators: the one that it waits in, and the one in which it is
 * waited for, so that those who wait there hear it before they see it leave.
 * Nothing of this is done before a rank has stood still for DDP__BLOCKED_MS.
 *
 * Only where all communicators of the world are the cpu backend's. */
#ifndef SDK_BLOCKED_H
#define SDK_BLOCKED_H

#include "worker-sdk/peers.h"

/* struct ddp__peers' blocked and unblocked; owner is a struct ddp_comm. By the
 * thread that is in the call. */
int ddp__blocked_look(void *owner, const struct ddp__call *call, int from,
		      struct err *e);
void ddp__blocked_end(void *owner);

#endif

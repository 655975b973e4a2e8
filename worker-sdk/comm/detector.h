/* detector.h: detects deadlocks (deadlock.h) while ranks are in them.
 *
 * On a host, a blocked rank publishes its struct ddp__blocked on its board, in
 * the world's shared memory, and reads the other boards. When it finds the same
 * cycle twice, it publishes the cycle there as well, and all ranks of the
 * cycle fail with the same text. Each of them fails two communicators: the one
 * in which it waits, and the one in which another rank waits for it; otherwise
 * ranks waiting in the second would only see that this rank leaves, without the
 * reason.
 *
 * Between hosts, a leader that waits sends a notice to the leaders that it
 * waits for (DDP__FRAME_WAITS). A blocked leader reads the notices on all its
 * communicators. It answers with the struct ddp__blocked of each rank of its
 * host that has not begun the call, and of the ranks that these wait for in
 * turn. A leader publishes the answers that it receives on its board. In a
 * cycle of two ranks both then know all of it. The ranks of a longer cycle
 * learn of it one after another: the first rank that knows it waits for WIDE_MS
 * before it fails.
 *
 * All this starts only after a rank has not moved for DDP__BLOCKED_MS, and only
 * if all communicators of the world are on the cpu backend. */
#ifndef SDK_DETECTOR_H
#define SDK_DETECTOR_H

#include "worker-sdk/comm/comm.h"
#include "worker-sdk/core/deadlock.h"
#include "worker-sdk/shm/shm.h"

/* The functions blocked, unblocked and heard of struct ddp__peers; owner is a
 * struct ddp_comm. The caller holds the engine's lock. */
int ddp__detector_check(void *owner, const struct ddp__call *call, int from,
			struct err *e);
void ddp__detector_end(void *owner);
/* The operation that c waits in has failed. In a deadlock a rank may first
 * notice another rank's failure and its reason: then *e becomes that reason,
 * also for the ranks that wait for this one. */
void ddp__detector_explain(struct ddp_comm *c, struct err *e);
void ddp__detector_receive(void *owner, const void *bytes, size_t size);

#endif

/* detector.h: detects deadlocks (deadlock.h) while ranks are in them.
 *
 * On a host: a blocked rank publishes its struct ddp__blocked on its board, in
 * the world's shared memory, and reads the other boards. A circle that it finds
 * twice, unchanged, it publishes there, too, and all ranks of the circle fail
 * with the same text. Each of them fails two communicators: the one that it
 * waits in, and the one in which another rank waits for it; ranks that wait
 * there would otherwise see that it leaves, and not why.
 *
 * Between hosts: a leader that waits sends a notice to the leaders that it
 * waits for (DDP__FRAME_WAITS). A blocked leader reads the notices on all its
 * communicators. Its answer is the struct ddp__blocked of each rank of its host
 * that has not begun the call, and of the ranks that these wait for in turn.
 * What a leader hears it publishes on its board. In a circle of two both then
 * know all of it. The ranks of a longer one learn of it one after another: the
 * first that knows it waits for WIDE_MS before it fails.
 *
 * None of this happens before a rank has stood still for DDP__BLOCKED_MS, or
 * where a communicator of the world is not on the cpu backend. */
#ifndef SDK_DETECTOR_H
#define SDK_DETECTOR_H

#include "worker-sdk/comm/comm.h"
#include "worker-sdk/core/deadlock.h"
#include "worker-sdk/shm/shm.h"

/* blocked, unblocked and heard of struct ddp__peers; owner is a struct
 * ddp_comm. The caller holds the engine's lock. */
int ddp__detector_look(void *owner, const struct ddp__call *call, int from,
		       struct err *e);
void ddp__detector_end(void *owner);
/* The operation that c waits in has failed. In a deadlock a rank may see
 * another one fail, and why: then *e becomes that reason, also for the ranks
 * that wait for this one. */
void ddp__detector_explain(struct ddp_comm *c, struct err *e);
void ddp__detector_hear(void *owner, const void *bytes, size_t size);

/* ---- for the detector's two files ---- */

enum { DDP__HEARD_MAX = 8 };

/* A circle that a rank found. */
struct ddp__circle {
	uint64_t n; /* 0: none */
	uint64_t is_wide; /* of several hosts */
	struct ddp__stuck ranks[DDP__CIRCLE_MAX];
	struct err error; /* what all of them fail with */
};

/* Blocked ranks of other hosts; a new one replaces the oldest. */
struct ddp__heard {
	uint64_t n, next;
	struct ddp__blocked ranks[DDP__HEARD_MAX];
};

/* A world's detector: what this rank has on its board, if others are on its
 * host. */
struct ddp__detector {
	struct ddp__circle circle;
	struct ddp__blocked mine; /* turn 0: not blocked */
	struct ddp__heard heard;
	/* not on the board */
	uint64_t turns, since, looked;
	struct ddp__circle found; /* in the look before this one, and */
	uint64_t found_since;	  /* in all looks since */
};

/* All ranks known to be blocked, this one first, and in *n how many. NULL: no
 * memory. */
struct ddp__blocked *ddp__detector_gather(const struct ddp__detector *d,
					  const struct ddp__shm *s, int *n);
/* detector_hosts.c: reads the notices of other hosts, and answers. */
void ddp__detector_answer(const struct ddp__detector *d,
			  const struct ddp_comm *world);

#endif

/* detector.h: detects deadlocks (deadlock.h) while ranks are in them.
 *
 * On a host, a blocked rank publishes its struct ddp__blocked on its board, in
 * the world's shared memory, and reads the other boards. When it finds the same
 * circle twice, it publishes the circle there as well, and all ranks of the
 * circle fail with the same text. Each of them fails two communicators: the one
 * in which it waits, and the one in which another rank waits for it; otherwise
 * ranks waiting in the second would only see that this rank leaves, without the
 * reason.
 *
 * Between hosts, a leader that waits sends a notice to the leaders that it
 * waits for (DDP__FRAME_WAITS). A blocked leader reads the notices on all its
 * communicators. It answers with the struct ddp__blocked of each rank of its
 * host that has not begun the call, and of the ranks that these wait for in
 * turn. A leader publishes the answers that it receives on its board. In a
 * circle of two ranks both then know all of it. The ranks of a longer circle
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

/* ---- for the detector's two files ---- */

enum { DDP__HEARD_MAX = 8 };

/* A circle that a rank found. */
struct ddp__circle {
	uint64_t n; /* 0: none */
	uint64_t is_wide; /* spans several hosts */
	struct ddp__stuck ranks[DDP__CIRCLE_MAX];
	struct err error; /* the error with which all its ranks fail */
};

/* Blocked ranks of other hosts; a new entry replaces the oldest. */
struct ddp__heard {
	uint64_t n, next;
	struct ddp__blocked ranks[DDP__HEARD_MAX];
};

/* A world's detector: the contents of this rank's board, if its host has other
 * ranks. */
struct ddp__detector {
	struct ddp__circle circle;
	struct ddp__blocked mine; /* turn 0: not blocked */
	struct ddp__heard heard;
	/* not on the board */
	uint64_t turns, since, looked;
	struct ddp__circle found; /* in the last search, and */
	uint64_t found_since;	  /* in every search since then */
};

/* All ranks known to be blocked, this one first; *n is their number. NULL: no
 * memory. */
struct ddp__blocked *ddp__detector_gather(const struct ddp__detector *d,
					  const struct ddp__shm *s, int *n);
/* detector_hosts.c: reads the notices of other hosts, and answers them. */
void ddp__detector_answer(const struct ddp__detector *d,
			  const struct ddp_comm *world);

#endif

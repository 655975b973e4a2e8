/* deadlock.h: ranks that wait for each other in different communicators. Pure:
 * finds them in what blocked ranks say of themselves, and puts it into words.
 *
 * Calls that do not match are found where they meet, in one communicator. Ranks
 * that make a different number of calls on two of them, or take them in another
 * order, do not meet: one waits in the first, one in the second, and each calls
 * the other late. A reducer has a communicator of its own, so that this is what
 * becomes of one step less.
 *
 * A rank is blocked where it waits in a collective, in a call that returns only
 * at its end. It begins nothing else meanwhile. What it says is what it waits
 * in, and how many collectives it has begun on each of its communicators; those
 * under way asynchronously are begun. Rank A waits for rank B for ever if
 *
 *   - A's call needs B: every rank, but for collectives with a root;
 *   - B has not begun that call, and is blocked itself,
 *   - for ever: it waits so for a third rank, and so on, back to A.
 *
 * Such a circle is no guess: none of its ranks can begin what another one
 * needs, whatever threads, requests and messages there are. What its ranks said
 * may be of different times: it stays true until one that is waited for begins
 * the call, which a blocked one does not. */
#ifndef SDK_DEADLOCK_H
#define SDK_DEADLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/flight_recorder.h"
#include "worker-sdk/core/peers.h"

enum {
	DDP__BLOCKED_COMMS = 64, /* communicators that a rank tells of */
	DDP__CIRCLE_MAX = 16
};

/* Whom a blocked call needs, if it is not one rank of the world. */
enum {
	DDP__NEEDS_ALL = -1,
	DDP__NEEDS_HOST = -2, /* all of its host */
	DDP__NEEDS_NONE = -3  /* that is known */
};

struct ddp__begun {
	uint64_t comm, calls;
};

/* A rank that is blocked. The words of it that are used come first. */
struct ddp__blocked {
	uint64_t turn; /* which of its waits; 0: it is not blocked */
	uint64_t comm; /* it waits there: the same on all ranks, and no other's
			* of the world */
	uint64_t word, number; /* in this call, packed */
	char group[FLIGHT_GROUP_MAX]; /* comm's name */
	int32_t rank, host;	      /* its own, in the world */
	int32_t needs;
	uint32_t comms;
	struct ddp__begun begun[DDP__BLOCKED_COMMS];
};

static inline size_t ddp__blocked_size(const struct ddp__blocked *b)
{
	return offsetof(struct ddp__blocked, begun) +
	       b->comms * sizeof(*b->begun);
}

/* A rank's wait, in a circle. */
struct ddp__stuck {
	uint64_t turn, comm;
	int64_t rank;
};

/* 1: a's call needs b, which is blocked and has not begun it. */
int ddp__blocked_awaits(const struct ddp__blocked *a,
			const struct ddp__blocked *b);

/* 1: b is of comm, and has not begun its call of that number. */
int ddp__has_not_begun(const struct ddp__blocked *b, uint64_t comm,
		       uint64_t number);

/* Places in all: adds to the first n_found of found those that they wait for,
 * and so on, up to `most`. Returns how many there are then. */
int ddp__blocked_reach(const struct ddp__blocked *all, int n, int *found,
		       int n_found, int most);

/* The shortest circle through all[me], of at most DDP__CIRCLE_MAX: places in
 * all, each waiting for the next, from the lowest rank on. Returns how many; 0:
 * there is none. */
int ddp__deadlock_find(const struct ddp__blocked *all, int n, int me,
		       int circle[DDP__CIRCLE_MAX]);

/* "rank 0 on h1 waits in barrier #3 for rank 1 on h1, which waits in ...", and
 * what to do. peers: the world's. ERR_ARGUMENT. */
int ddp__deadlock_error(const struct ddp__blocked *all, const int *circle,
			int n, const struct ddp__peers *peers, struct err *e);

#endif

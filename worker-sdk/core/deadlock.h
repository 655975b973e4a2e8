/* deadlock.h: finds ranks that wait for each other in different communicators,
 * from the reports of blocked ranks, and writes the error's text. Pure.
 *
 * Calls on one communicator that do not match are detected there. Ranks that
 * make different numbers of calls on two communicators, or use them in a
 * different order, do not meet: one rank waits in the first, another in the
 * second, and each calls the other one late. A reducer has a communicator of
 * its own, so a rank that trains one step less ends in this way.
 *
 * A rank is blocked while it waits in a collective, in a call that returns only
 * when the collective has ended. Meanwhile it begins nothing else. It reports
 * the call it waits in, and the number of collectives it has begun on each of
 * its communicators, asynchronous ones included. Rank A waits for rank B for
 * ever if
 *
 *   - A's call needs B: a collective needs every rank, unless it has a root;
 *   - B has not begun that call, and is blocked itself;
 *   - B waits in the same way for a third rank, and so on, back to A.
 *
 * Such a cycle is certain: none of its ranks can begin the call that another
 * one needs, whatever threads, requests and messages there are. The reports may
 * be of different times: a wait stays true until the awaited rank begins the
 * call, and a blocked rank does not. */
#ifndef SDK_DEADLOCK_H
#define SDK_DEADLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "base/flight_recorder.h"
#include "worker-sdk/core/peers.h"

enum {
	DDP__BLOCKED_COMMS = 64, /* communicators that a rank lists */
	DDP__CYCLE_MAX = 16
};

/* The ranks that a blocked call needs, if not one rank of the world. */
enum {
	DDP__NEEDS_ALL = -1,
	DDP__NEEDS_HOST = -2, /* all ranks of its own host */
	DDP__NEEDS_NONE = -3  /* unknown */
};

struct ddp__begun {
	uint64_t comm, calls;
};

/* A blocked rank. The words in use come first. */
struct ddp__blocked {
	uint64_t turn; /* number of this wait; 0: the rank is not blocked */
	uint64_t comm; /* the communicator it waits in: the same number on all
			* its ranks, and unique in the world */
	uint64_t word, number; /* the call it waits in, packed */
	char group[FLIGHT_GROUP_MAX]; /* comm's name */
	int32_t rank, host;	      /* its own rank and host in the world */
	int32_t needs;
	uint32_t comms;
	struct ddp__begun begun[DDP__BLOCKED_COMMS];
};

static inline size_t ddp__blocked_size(const struct ddp__blocked *b)
{
	return offsetof(struct ddp__blocked, begun) +
	       b->comms * sizeof(*b->begun);
}

/* A rank's wait, as part of a cycle. */
struct ddp__stuck {
	uint64_t turn, comm;
	int64_t rank;
};

/* 1: a's call needs b, and b is blocked and has not begun that call. */
int ddp__blocked_awaits(const struct ddp__blocked *a,
			const struct ddp__blocked *b);

/* 1: b is a rank of comm, and has not begun its call with that number. */
int ddp__has_not_begun(const struct ddp__blocked *b, uint64_t comm,
		       uint64_t number);

/* Follows waits: adds to the first n_found of found (places in all) the ranks
 * that those wait for, and so on, up to `most`. Returns the new count. */
int ddp__blocked_reach(const struct ddp__blocked *all, int n, int *found,
		       int n_found, int most);

/* The shortest cycle through all[me], of at most DDP__CYCLE_MAX ranks: places
 * in all, each waiting for the next, starting at the lowest rank. Returns its
 * length; 0: there is none. */
int ddp__deadlock_find(const struct ddp__blocked *all, int n, int me,
		       int cycle[DDP__CYCLE_MAX]);

/* Sets ERR_ARGUMENT with the text "rank 0 on h1 waits in barrier #3 for rank 1
 * on h1, which waits in ...", and what to do. peers: the world's. */
int ddp__deadlock_error(const struct ddp__blocked *all, const int *cycle,
			int n, const struct ddp__peers *peers, struct err *e);

#endif

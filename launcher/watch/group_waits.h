/* group_waits.h: which share of the last minute a worker was blocked in the
 * collectives of each group of ranks that it belongs to. Pure: wait_share.h has
 * the minute. */
#ifndef LAUNCHER_GROUP_WAITS_H
#define LAUNCHER_GROUP_WAITS_H

#include "base/flight_recorder.h"
#include "launcher/watch/wait_share.h"
#include "rendezvous/wire.h"

struct group_wait {
	uint32_t id, size;
	char name[FLIGHT_GROUP_MAX];
	uint64_t counted_ns; /* the worker's own count, at the last tick */
	uint64_t slice_ns;   /* waited in the slice that grows */
	uint64_t past_ns[WAIT_SHARE_SLICES]; /* a ring */
	unsigned n;			     /* slices so far */
};

/* Zeroed: no groups yet. */
struct group_waits {
	int n;
	struct group_wait of[WIRE_GROUPS_MAX];
};

/* A tick: takes the groups from the recorder, the first WIRE_GROUPS_MAX of more
 * than one rank and fewer than all. most_ns: the most of the time waited since
 * the last tick that counts. */
void group_waits_add(struct group_waits *g, const struct flight_view *v,
		     uint64_t most_ns);
/* When wait_share_end_slice is called. */
void group_waits_end_slice(struct group_waits *g);
/* Appends a wire_group for each; minute_ns: wait_share_ns. Returns how many. */
uint32_t group_waits_put(const struct group_waits *g, uint64_t minute_ns,
			 struct buf *items);

#endif

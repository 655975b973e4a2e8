/* wait_share.h: which share of the last minute a worker was blocked in
 * collectives, of all ranks and of its groups, and what the kernel counted
 * meanwhile. Pure: the
 * caller has the clock. */
#ifndef LAUNCHER_WAIT_SHARE_H
#define LAUNCHER_WAIT_SHARE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/flight_recorder.h"
#include "rendezvous/wire.h"

/* ---- delays.c ----
 *
 * What the kernel counts of the time that a process loses: to the CPU limit of
 * its cgroup, to other processes, to disks, to TCP. Counters that cannot be
 * read stay 0. */

enum { DELAYS_WORDS_MAX = 120 };

/* Counters only grow. */
struct delays {
	/* Its cgroup, and those above it that limit CPU time: summed over CPUs,
	 * as is the CPU time they used (0: not known). */
	uint64_t throttled_us, limited_us;
	uint64_t queued_us;    /* waiting for a CPU: its main thread */
	uint64_t cpu_us;       /* running: its main thread */
	uint64_t disk_us;      /* for blocks; 0 without delayacct */
	uint64_t major_faults;
	uint64_t switches;	   /* involuntary */
	uint64_t segments, resent; /* TCP's, in its network namespace */
};

/* Reads /proc and /sys/fs/cgroup. */
void delays_read(pid_t pid, struct delays *d);

/* Pure: which of them explains why it was slow in those us, as a clause: "its
 * cgroup was throttled for 21 s of the last 60 s". Into out[DELAYS_WORDS_MAX];
 * returns out. */
char *delays_words(const struct delays *from, const struct delays *to,
		   uint64_t us, char *out);

/* Pure: N of the line "name N" of such a file; 0 without it. */
uint64_t delays_count(const char *text, const char *name);
/* Pure: the path of the cgroup that limits CPU time, in the text of
 * /proc/PID/cgroup, into out[size]; "": none. Returns its version, or 0. */
int delays_cgroup(const char *text, char *out, size_t size);

/* ---- wait_share.c ---- */

enum {
	WAIT_SHARE_SLICES = 12, /* in the minute */
	WAIT_SHARE_TICKS = 5,	/* in a slice */
	/* Ticks; the rest of a longer wait does not count. A single long pause,
	 * as for a checkpoint, does not make a rank slow. */
	WAIT_SHARE_LONGEST = 3,
};

struct wait_slice {
	uint64_t ns, waited_ns;
	struct delays until; /* as they were at its end */
};

struct wait_share {
	uint64_t ns, waited_ns;	 /* at the last tick; ns 0: none yet */
	struct wait_slice slice; /* that grows */
	unsigned ticks;		 /* in it */
	/* a ring; one more than the minute has, for the counters at its start
	 */
	struct wait_slice past[WAIT_SHARE_SLICES + 1];
	unsigned n; /* slices so far */
};

/* How much of the time waited since the last tick counts, if this tick is at
 * ns; 0: this is the first. */
uint64_t wait_share_most(const struct wait_share *w, uint64_t ns,
			 uint64_t tick_ns);
/* A tick: waited_ns is the worker's own count, which only grows. 1: a slice is
 * full, and wait_share_end_slice is due. */
int wait_share_add(struct wait_share *w, uint64_t ns, uint64_t waited_ns,
		   uint64_t tick_ns);
void wait_share_end_slice(struct wait_share *w, const struct delays *now);

/* The length of that minute. */
uint64_t wait_share_ns(const struct wait_share *w);
/* In thousandths; -1: it has not been watched for a minute. */
int32_t wait_share_permille(const struct wait_share *w);
/* Why it may have been slow in that minute, as delays_words; "" while
 * wait_share_permille is -1. Returns out. */
char *wait_share_cause(const struct wait_share *w, char *out);

/* ---- the same for each group of ranks that it belongs to ---- */

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

/* guard.h: a tiny process that kills the workers when the agent was killed in
 * a way that left it no time (kill -9, out of memory). It shares with the agent
 * a table of the workers' process groups and pipes, and nothing else. */
#ifndef LAUNCHER_GUARD_H
#define LAUNCHER_GUARD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/worker/sweep.h"

struct guard {
	pid_t pid;
	int pipe; /* its end is the agent's end */
	volatile pid_t *groups;
	volatile ino_t *pipes; /* two for each group: see guard_note_pipes */
	uint32_t n;
	const struct sweep_marks *marks;
	const char *folder;
	uint32_t deaths;       /* since then, see guard_reaped */
	uint64_t deaths_since; /* ms */
};

/* Forks it; before the event loop, for a fork copies that too. marks are what
 * all descendants have, beside the pipes; folder is what it removes after them,
 * "" for none. Both are borrowed until guard_stop. */
int guard_start(struct guard *g, uint32_t n, const struct sweep_marks *marks,
		const char *folder, struct err *e);

/* Where the i-th worker's process group is to be written; 0 is none. Once the
 * group's leader is reaped it is written as a negative number: then the number
 * may have become somebody else's, which is looked at before it is used. */
volatile pid_t *guard_slot(struct guard *g, uint32_t i);

/* The i-th worker gets these for stdout and stderr: what it starts has them,
 * too, whatever that does to its environment, and is known by them. -1: that is
 * no pipe of ours. */
void guard_note_pipes(struct guard *g, uint32_t i, int out, int err);

/* That child has ended, with that status; 1 if it was the guard. Then it was
 * killed alone, and another one with the same table takes its place: a warning.
 * If guards end again and again, or there can be no other, the warning says
 * what does not hold any more, and there is none. */
int guard_reaped(struct guard *g, pid_t pid, int status);

/* Signals what is in a slot; 0 if there was nobody. */
int guard_signal(pid_t slot, int signal);

/* Everything is stopped, but its folder cannot be removed from here, for lack
 * of memory or descriptors: the guard, which has its own, does what it does
 * when the agent dies. guard_stop still follows. */
void guard_finish(struct guard *g);
/* Everything is stopped: ends the guard and waits for it. */
void guard_stop(struct guard *g);

#endif

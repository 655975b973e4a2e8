/* mpi_wait.h: whether a worker waits in a call of MPI, from looks at its stack
 * every few seconds. MPI polls, so a rank that waits computes at 100 % CPU.
 * Pure but for call_return.c: the caller has the clock. */
#ifndef LAUNCHER_MPI_WAIT_H
#define LAUNCHER_MPI_WAIT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "launcher/watch/activity.h"

enum {
	MPI_WAIT_CALL_MAX = 40,
	MPI_WAIT_WHERE_MAX = 64,
	/* looks in a call, one after the other, until it counts as a wait where
	 * the kernel does not say whether the call has returned */
	MPI_WAIT_LOOKS = 3,
	MPI_WAIT_ASLEEP = 4, /* looks until a process sleeps without a break */
	/* ticks between two looks: while ranks may wait; at most, while a rank
	 * computes; at most, while no process has loaded MPI */
	MPI_WAIT_TICKS = 5,
	MPI_WAIT_TICKS_BUSY = 7,
	MPI_WAIT_TICKS_NONE = 60,
};

/* What a look finds: a line "PID RETURN CALL WHERE". RETURN is the address, in
 * hexadecimal, at which the program goes on after the call; 0: not known. CALL
 * is "none" for a process without MPI, "-" for a process in no call. WHERE is
 * "train.c:12", or "-". */
struct mpi_look {
	pid_t pid;
	uint64_t returns;
	char call[MPI_WAIT_CALL_MAX], where[MPI_WAIT_WHERE_MAX];
};

enum mpi_since { MPI_RETURNED, MPI_SAME, MPI_UNKNOWN };

struct mpi_wait {
	struct mpi_look last;
	unsigned looks; /* in that function, one after the other */
	unsigned same;	/* the last ones, at which it had not returned */
	uint64_t looks_ns, same_ns; /* when the first of each was */
	/* a process in no call: how often it was woken, at the end of the last
	 * look; the last looks between which it was not */
	uint64_t wakes;
	unsigned asleep;
};

/* Takes the next such line from text; skips others. 0: there is none. */
int mpi_look_next(struct slice *text, struct mpi_look *out);
int mpi_look_has_mpi(const struct mpi_look *l);
int mpi_look_is_call(const struct mpi_look *l);

/* since: whether the call of the last look has returned. before, after: how
 * often the process had been woken when the look began, and when it had ended:
 * a look wakes it. */
void mpi_wait_add(struct mpi_wait *w, const struct mpi_look *l,
		  enum mpi_since since, uint64_t before, uint64_t after,
		  uint64_t ns);

/* 1 if it waits in a call: since when, and in words: "stays in MPI_Barrier at
 * train.c:12 (99 % CPU)", or "is in" where it may have returned meanwhile; if
 * it sleeps elsewhere: "sleeps (nanosleep) without being woken". a: what it
 * does otherwise. */
int mpi_wait_words(const struct mpi_wait *w, const struct activity *a,
		   char out[ACTIVITY_WORDS_MAX], uint64_t *since_ns);

/* ---- call_return.c ----
 *
 * A breakpoint of the processor, which the kernel counts: the process does not
 * stop, and is not disturbed but for the first time it comes there. */

/* A descriptor, or -errno: perf_event_open is not allowed
 * (kernel.perf_event_paranoid above 2), or the processor has no more. */
int call_return_open(pid_t pid, uint64_t address);
/* Whether the process has been there. */
enum mpi_since call_return_read(int fd);

/* ---- when to look ---- */

struct mpi_schedule {
	unsigned ticks, left; /* between two looks; until the next */
};

enum mpi_found { MPI_FOUND_NONE, MPI_FOUND_BUSY, MPI_FOUND_WAITS };

/* 1: a look is due. */
int mpi_schedule_tick(struct mpi_schedule *s);
/* A look has ended. least: ticks, by what it cost. */
void mpi_schedule_set(struct mpi_schedule *s, enum mpi_found found,
		      unsigned least);

#endif

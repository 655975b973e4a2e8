/* mpi_calls.h: in which call of MPI the workers of this node are, by their
 * stacks. A child of the agent looks (`ddprun --mpi-calls PID...`), so that the
 * agent never waits for stacks, nor keeps libdw's memory. */
#ifndef LAUNCHER_MPI_CALLS_H
#define LAUNCHER_MPI_CALLS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "launcher/inspect/backtrace.h"

/* Not an option for users. */
#define MPI_CALLS_COMMAND "--mpi-calls"

/* Prints a line of watch/mpi_wait.h's for each process. Returns the exit code.
 */
int mpi_calls_main(int argc, char **argv);

/* Pure: the frame of the first function of MPI that the program called, and its
 * name as in C; -1: none. */
int mpi_calls_find(const struct backtrace_thread *t, const char **name);

/* ---- the agent's side ---- */

/* Zeroed: no look is in progress. */
struct mpi_looks {
	pid_t pid; /* the child's; 0: none */
	int fd;	   /* what it prints */
	uint64_t began_ns;
};

/* Looks at these processes; nothing if the last look has not ended, which is
 * killed if it takes too long. -errno: nothing was started. */
int mpi_looks_start(struct mpi_looks *l, const pid_t *pids, uint32_t n,
		    struct err *e);
/* A child ended: 1 if it was looking. Appends what it printed. */
int mpi_looks_reaped(struct mpi_looks *l, pid_t pid, struct buf *out);
/* Kills the child; its end is still reaped. */
void mpi_looks_stop(struct mpi_looks *l);

#endif

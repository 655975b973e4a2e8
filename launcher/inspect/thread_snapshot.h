/* thread_snapshot.h: copies the registers and the top of the stack of a thread
 * of another process, which ptrace stops for that moment. */
#ifndef LAUNCHER_THREAD_SNAPSHOT_H
#define LAUNCHER_THREAD_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { SNAPSHOT_STACK_MAX = 256 << 10, SNAPSHOT_REGISTERS = 32 };

struct thread_snapshot {
	pid_t tid;
	uint64_t registers[SNAPSHOT_REGISTERS]; /* in DWARF's order */
	int nregisters;
	uint64_t pc, sp;
	int is_dead; /* the process has ended: there is only the copy */
	size_t size;
	unsigned char stack[SNAPSHOT_STACK_MAX]; /* from sp on */
};

/* The thread runs on when this returns, or if we are killed; a thread that was
 * stopped before stays stopped. -EPERM, -ESRCH; -ETIMEDOUT: it is inside the
 * kernel. The text says what to do. */
int thread_snapshot_take(struct thread_snapshot *s, pid_t pid, pid_t tid,
			 struct err *e);

/* A word of its memory: from the copy, else from the live process. 0 or -1. */
int thread_snapshot_read(const struct thread_snapshot *s, uint64_t at,
			 uint64_t *word);

#endif

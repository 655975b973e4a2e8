/* thread_snapshot.h: copies the registers and the top of the stack of a thread
 * of another process, which ptrace stops for that moment. */
#ifndef LAUNCHER_THREAD_SNAPSHOT_H
#define LAUNCHER_THREAD_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "launcher/python/python.h"

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

/* ---- Python's threads ----
 *
 * The Python frames of all threads of a worker, for a dump. */

struct python_threads {
	struct python_thread *list;
	size_t n;
};

/* Without Python there are no threads, which is no error. The caller releases
 * t in any case. */
int python_threads_read(struct python_threads *t, pid_t pid, struct err *e);
void python_threads_release(struct python_threads *t);

/* NULL: this thread has no Python frames. */
const struct python_thread *python_threads_of(const struct python_threads *t,
					      pid_t tid);

/* A line for each frame, innermost first. */
void python_threads_put(struct buf *out, const struct python_thread *t);

#endif

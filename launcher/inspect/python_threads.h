/* python_threads.h: the Python frames of all threads of a worker, for a dump.
 */
#ifndef LAUNCHER_PYTHON_THREADS_H
#define LAUNCHER_PYTHON_THREADS_H

#include "base/buf.h"
#include "launcher/python/python.h"

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

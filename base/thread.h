/* thread.h: threads that nobody joins. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <stddef.h>

#include "base/error.h"

enum { THREAD_STACK_SMALL = 256 << 10 }; /* for a few calls of the kernel */

/* Runs run(arg) in a detached thread, with a stack of that many bytes (0: the
 * default). The thread blocks all signals: a signal that the caller blocks must
 * not end the process in the thread instead, and handlers run in the thread
 * that expects them. 0 or -errno. */
MUST_CHECK int thread_detach(void *(*run)(void *), void *arg, size_t stack);

#endif

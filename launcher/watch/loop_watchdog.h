/* loop_watchdog.h: a thread that reports when the event loop is stuck, and in
 * which call of the kernel. The agent makes and removes files below --log-dir;
 * on a file server that has stopped, such a call does not return, and nothing
 * else could say so. */
#ifndef LAUNCHER_LOOP_WATCHDOG_H
#define LAUNCHER_LOOP_WATCHDOG_H

#include "base/loop.h"

/* The thread outlives a loop that never ends, so its state is static: there is
 * one watchdog in a process. If it cannot be started, there is none. It writes
 * a line to stderr when the loop has been stuck for 10 s, or has not begun to
 * run by then, and when it goes on; not to the log, whose sink belongs to the
 * loop. Time in which the whole process was stopped does not count. */
void loop_watchdog_start(uv_loop_t *loop);

/* Before the loop's end, which must run once more; does nothing if it was not
 * started. */
void loop_watchdog_close(void);

#endif

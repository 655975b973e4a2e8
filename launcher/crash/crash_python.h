/* crash_python.h: the frames of Python of a thread that dies, for
 * crash_handler.c, whose library it is in. */
#ifndef LAUNCHER_CRASH_PYTHON_H
#define LAUNCHER_CRASH_PYTHON_H

#include <stdint.h>

/* Writes them, as faulthandler prints them, to the record of the slot at that
 * offset of fd; nothing if the process has no Python. tid is the caller's. A
 * damaged interpreter costs the frames, and half a second at most. Leaves the
 * actions of SIGSEGV, SIGBUS and SIGALRM changed. */
void crash_python_put(int fd, uint64_t slot, int32_t tid);

#endif

/* reap.h: takes the status of children that have ended, without waiting. */
#ifndef LAUNCHER_REAP_H
#define LAUNCHER_REAP_H

#include <sys/types.h>

/* Calls on_death for every child that has ended, those that a signal killed
 * before the others that ended with them: a peer that exits because another one
 * was killed is often seen together with it, and the signal is the cause. */
void reap_children(void (*on_death)(void *arg, pid_t pid, int status),
		   void *arg);

#endif

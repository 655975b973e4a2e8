/* reap.h: takes the status of children that have ended, without waiting. */
#ifndef LAUNCHER_REAP_H
#define LAUNCHER_REAP_H

#include <sys/resource.h>
#include <sys/types.h>

/* usage is of the child and of those that it waited for itself. */
typedef void reap_on_death(void *arg, pid_t pid, int status,
			   const struct rusage *usage);

/* Calls on_death for every child that has ended, those that a signal killed
 * before the others that ended with them: a peer that exits because another one
 * was killed is often seen together with it, and the signal is the cause. */
void reap_children(reap_on_death *on_death, void *arg);

#endif

/* reap.h: reaps the children that have ended, without waiting. */
#ifndef LAUNCHER_REAP_H
#define LAUNCHER_REAP_H

#include <sys/resource.h>
#include <sys/types.h>

/* usage includes the child's own children that it waited for. */
typedef void reap_on_death(void *arg, pid_t pid, int status,
			   const struct rusage *usage);

/* Calls on_death for every child that has ended. Among children found together,
 * those killed by a signal come first: a worker often exits because a signal
 * killed its peer, and the signal is the cause. */
void reap_children(reap_on_death *on_death, void *arg);

#endif

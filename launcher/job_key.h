/* job_key.h: how a tool of this user's proves that it may ask about a job: by
 * the key that the job's workers on this host have in their environment. */
#ifndef LAUNCHER_JOB_KEY_H
#define LAUNCHER_JOB_KEY_H

#include <sys/types.h>

#include "rendezvous/auth.h"

/* What worker pid would say to its server: 0, or -errno: it is not there, or
 * has no server. */
int job_key_of(struct auth *a, pid_t pid);

#endif

/* job_key.h: how a tool of this user's proves that it may ask about a job: by
 * the key that the job's agent on this host has in its flight recorder. */
#ifndef LAUNCHER_JOB_KEY_H
#define LAUNCHER_JOB_KEY_H

#include "base/flight.h"
#include "rendezvous/auth/auth.h"

/* What that job's agents and workers would say to its server. ERR_USAGE: it is
 * damaged. */
int job_key_of(struct auth *a, const struct flight_file *job, struct err *e);

#endif

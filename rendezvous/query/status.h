/* status.h: what tools are told of jobs, of what the server knows itself: it
 * asks nobody else. Changes nothing of a job. */
#ifndef RENDEZVOUS_STATUS_H
#define RENDEZVOUS_STATUS_H

#include "rendezvous/server/hosted_job.h"

/* STATUS: a JOB for each that the tool may see, then the reply. */
int status_take(struct peer *tool, const struct wire_frame *f, struct err *e);

#endif

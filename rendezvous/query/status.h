/* status.h: `ddprun status`: what the server itself knows of its jobs. Asks no
 * agent and changes nothing. */
#ifndef RENDEZVOUS_STATUS_H
#define RENDEZVOUS_STATUS_H

#include "rendezvous/server/hosted_job.h"

/* STATUS: sends a JOB for each job that the tool may see, then the reply. */
int status_take(struct peer *tool, const struct wire_frame *f, struct err *e);

#endif

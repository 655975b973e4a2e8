/* role_report.h: ROLE_NEWS, which all agents of a round get. In no journal: a
 * worker that is left out has an EXITED as well. */
#ifndef RENDEZVOUS_ROLE_REPORT_H
#define RENDEZVOUS_ROLE_REPORT_H

#include "rendezvous/server/hosted_job.h"

/* Passes it on, with the agent's node. ERR_PROTOCOL if the text is too long. */
int role_report_pass(struct peer *agent, const struct wire_frame *f,
		     struct err *e);

#endif

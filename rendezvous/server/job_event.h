/* job_event.h: events of a job. Each is applied and then recorded, so that a
 * refused event leaves nothing in the journal. Replay calls the same functions
 * (and records nothing), so that both reach the same state. Call hosted_job_act
 * after each. */
#ifndef RENDEZVOUS_JOB_EVENT_H
#define RENDEZVOUS_JOB_EVENT_H

#include "rendezvous/server/hosted_job.h"

/* An agent's JOIN, EXITED, FAILED, LEAVE or STOP; any other frame is
 * ERR_PROTOCOL. *n is its node, which JOIN sets; owner is for JOIN. < 0:
 * nothing has changed or is recorded. */
int job_event_take(struct hosted_job *h, struct job_node **n, void *owner,
		   const struct wire_frame *f, struct err *e);
/* The node's agent is gone. n is freed. */
void job_event_lost(struct hosted_job *h, struct job_node *n, const char *why);
/* The last call is over. */
void job_event_called(struct hosted_job *h);
/* The server ends the job. */
void job_event_stopped(struct hosted_job *h, const char *why);

#endif

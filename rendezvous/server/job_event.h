/* job_event.h: what happens to a job. The server that is there when it happens
 * and the one that reads of it in a journal call the same functions, so that
 * what they make of it cannot differ: each applies the event and writes it
 * down, which a server that reads does not do again. hosted_job_act is to
 * follow. */
#ifndef RENDEZVOUS_JOB_EVENT_H
#define RENDEZVOUS_JOB_EVENT_H

#include "rendezvous/server/hosted_job.h"

/* A frame of an agent: JOIN, EXITED, FAILED, LEAVE or STOP; any other is
 * ERR_PROTOCOL. *n is its node, which JOIN sets; owner is JOIN's. < 0: the job
 * is as it was, and nothing is written. */
int job_event_take(struct hosted_job *h, struct job_node **n, void *owner,
		   const struct wire_frame *f, struct err *e);
/* The node's agent is gone. n is freed. */
void job_event_lost(struct hosted_job *h, struct job_node *n, const char *why);
/* The last call is over. */
void job_event_called(struct hosted_job *h);
/* The server ends the job. */
void job_event_stopped(struct hosted_job *h, const char *why);

#endif

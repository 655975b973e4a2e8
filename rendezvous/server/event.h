/* event.h: what happens to a job. The server that is there when it happens and
 * the one that reads of it in a journal call the same functions, so that what
 * they make of it cannot differ: each applies the event and writes it down,
 * which a server that reads does not do again. hosted_act is to follow. */
#ifndef RENDEZVOUS_EVENT_H
#define RENDEZVOUS_EVENT_H

#include "rendezvous/server/hosted.h"

/* A frame of an agent: JOIN, EXITED, FAILED, LEAVE or STOP; any other is
 * ERR_PROTOCOL. *n is its node, which JOIN sets; owner is JOIN's. < 0: the job
 * is as it was, and nothing is written. */
int event_take(struct hosted *h, struct job_node **n, void *owner,
	       const struct wire_frame *f, struct err *e);
/* The node's agent is gone. n is freed. */
void event_lost(struct hosted *h, struct job_node *n, const char *why);
/* The last call is over. */
void event_called(struct hosted *h);
/* The server ends the job. */
void event_stopped(struct hosted *h, const char *why);

#endif

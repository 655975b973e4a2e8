/* resume.h: agents that come back, to a server that was away or to one that
 * has not noticed yet: whose node one is, what it has missed; and who is waited
 * for, for how long: those that a journal knows, and those whose connection was
 * reset. */
#ifndef RENDEZVOUS_RESUME_H
#define RENDEZVOUS_RESUME_H

#include "rendezvous/server/hosted_job.h"

enum {
	RESUME_RESET_MS = 3000, /* and no longer than its lease */
	RESUME_LOST_MAX = 64,	/* remembered by a job */
};

/* A node that was lost, and why. */
struct lost_node {
	struct lost_node *next; /* it was lost before this one */
	char *id;
	char why[];
};

/* RESUME. */
int resume_take(struct peer *m, const struct wire_frame *f, struct err *e);
/* The job is as a journal said: its nodes are away, and lost where they do not
 * come back in time. */
void resume_expect(struct hosted_job *h);
/* The agent's connection was reset, as by a firewall that forgot it, while the
 * agent lives: 1: its node is away, and lost where it does not come back in
 * time. 0: nobody waits for it. */
int resume_await(struct peer *m, const char *why);
/* The node is about to be lost: its agent is told so when it comes. */
void resume_lost(struct hosted_job *h, const struct job_node *n,
		 const char *why);
/* The same of one that is not there any more. */
void resume_remember(struct hosted_job *h, struct slice id, const char *why);
/* With the job. */
void resume_release(struct hosted_job *h);

#endif

/* resume.h: handles agents that reconnect (RESUME), to a restarted server, or
 * to a server that has not noticed the loss yet: finds their node and sends
 * what they have missed. Waits a limited time for the nodes of a replayed
 * journal and for those whose connection was reset. */
#ifndef RENDEZVOUS_RESUME_H
#define RENDEZVOUS_RESUME_H

#include "rendezvous/server/hosted_job.h"

enum {
	RESUME_RESET_MS = 3000, /* at most; and no longer than the lease */
	RESUME_LOST_MAX = 64,   /* lost nodes that a job remembers */
};

/* A node that was lost, and why. */
struct lost_node {
	struct lost_node *next; /* lost before this one */
	char *id;
	char why[];
};

/* RESUME. */
int resume_take(struct peer *p, const struct wire_frame *f, struct err *e);
/* The job was restored from a journal: its nodes are away, and those that do
 * not come back in time are lost. */
void resume_expect(struct hosted_job *h);
/* The agent's connection was reset, perhaps by a firewall, and the agent may
 * live. 1: its node is away, and lost if it does not come back in time. 0: it
 * is not waited for. */
int resume_await(struct peer *p, const char *why);
/* The node is about to be lost: remembers why, for an agent that comes late. */
void resume_lost(struct hosted_job *h, const struct job_node *n,
		 const char *why);
/* The same for a node that is gone already. */
void resume_remember(struct hosted_job *h, struct slice id, const char *why);
/* The job is being freed. */
void resume_release(struct hosted_job *h);

#endif

/* dump.h: `ddprun dump`: sends a tool's request to all agents of a job and
 * passes their replies back, until all have replied or the time is over. Does
 * not look into the replies; changes nothing in the job. */
#ifndef RENDEZVOUS_DUMP_H
#define RENDEZVOUS_DUMP_H

#include "rendezvous/server/hosted_job.h"

/* A tool's HELLO: 0, or ERR_REFUSED if there is no such job here. */
int dump_hello(struct peer *tool, const struct wire_hello *hello,
	       struct err *e);
/* DUMP. */
int dump_start(struct peer *tool, const struct wire_frame *f, struct err *e);
/* DUMP_REPLY. */
int dump_page(struct peer *agent, const struct wire_frame *f, struct err *e);
/* The tool's deadline has passed. */
void dump_on_due(struct peer *tool);
/* An agent or a tool is gone; why as in peer_lose. Idempotent. */
void dump_forget(struct peer *p, const char *why);

#endif

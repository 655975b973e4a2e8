/* dump.h: tools that ask what a job does: their question goes to all its agents
 * and the answers come back, until all have answered or the time is over. Knows
 * nothing of what is in a page; changes nothing of a job. */
#ifndef RENDEZVOUS_DUMP_H
#define RENDEZVOUS_DUMP_H

#include "rendezvous/server/hosted_job.h"

/* A tool's HELLO: 0, or ERR_REFUSED: there is no such job here. */
int dump_hello(struct peer *tool, const struct wire_hello *hello,
	       struct err *e);
/* DUMP. */
int dump_start(struct peer *tool, const struct wire_frame *f, struct err *e);
/* DUMP_REPLY. */
int dump_page(struct peer *agent, const struct wire_frame *f, struct err *e);
/* The time of a tool is over. */
void dump_on_due(struct peer *tool);
/* An agent, or a tool, is gone; why as in peer_lose. Again: fine. */
void dump_forget(struct peer *m, const char *why);

#endif

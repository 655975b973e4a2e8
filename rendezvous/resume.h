/* resume.h: agents that come back, to a server that was away or to one that
 * has not noticed yet: whose node one is, what it has missed; and who is waited
 * for, for how long, that a journal knows. */
#ifndef RENDEZVOUS_RESUME_H
#define RENDEZVOUS_RESUME_H

#include "rendezvous/hosted.h"

/* RESUME. */
int resume_take(struct member *m, const struct wire_frame *f, struct err *e);
/* The job is as a journal said: its nodes are away, and lost where they do not
 * come back in time. */
void resume_expect(struct hosted *h);

#endif

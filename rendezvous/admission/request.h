/* request.h: what the server's clients send: who may send what, as what, and
 * what it does. */
#ifndef RENDEZVOUS_REQUEST_H
#define RENDEZVOUS_REQUEST_H

#include "rendezvous/server/hosted_job.h"

/* Who has proved itself is let in as what it says it is: 0, or why not. */
int request_admit(struct peer *m, const struct wire_hello *hello,
		  struct err *e);

/* Answers it, or refuses the client, which is then lost to its job. */
void request_take(struct peer *m, const struct wire_frame *f);

#endif

/* request.h: handles clients' messages: which role may send which message, and
 * what it does. */
#ifndef RENDEZVOUS_REQUEST_H
#define RENDEZVOUS_REQUEST_H

#include "rendezvous/server/hosted_job.h"

/* Admits an authenticated client in the role of its HELLO: 0, or why not. */
int request_admit(struct peer *p, const struct wire_hello *hello,
		  struct err *e);

/* Handles a frame. A client that breaks the protocol is refused and lost. */
void request_take(struct peer *p, const struct wire_frame *f);

#endif

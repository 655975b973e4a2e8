/* listening.h: the server's listening sockets. At a port that PyTorch's clients
 * of a job share with ours (torch_job), the first byte of a connection decides
 * whose it is, and nothing is sent before: ours begin with the preface. Owns
 * the sockets, and connections that have not sent anything yet. */
#ifndef RENDEZVOUS_LISTENING_H
#define RENDEZVOUS_LISTENING_H

#include "rendezvous/server/server.h"

enum { LISTENING_MUTE_MAX = 512 }; /* connections that have sent nothing */

/* Listens on n sockets, which it takes. s->accept is set. -errno with text;
 * listening_close has to follow. */
int listening_open(struct server *s, const int *fds, int n, struct err *e);
/* A client of ours may be accepted now. */
void listening_again(struct server *s);
/* No more clients. Idempotent. */
void listening_close(struct server *s);

#endif

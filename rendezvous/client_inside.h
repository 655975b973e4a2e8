/* client_inside.h: what client.c and client_connect.c share. */
#ifndef RENDEZVOUS_CLIENT_INSIDE_H
#define RENDEZVOUS_CLIENT_INSIDE_H

#include "rendezvous/client.h"

enum { CLIENT_READ = 16 << 10 };

struct client {
	int fd;
	uint32_t id; /* of the request that is being made; never 0 */
	char at[SOCK_TEXT_MAX];
	struct buf out, in;
	size_t used; /* bytes at the front of in that were handed out */
	struct err dead; /* code 0: alive */
	int told;        /* dead is the server's own last word */
	char waits[ERR_TEXT_MAX / 2]; /* "; ...": what WAITING said, or "" */
};

/* It stays so, with that text; the first one counts. */
int client_die(struct client *c, int code, const char *what, struct err *e);
/* What c->out was filled with; deadline in clock_ms, UINT64_MAX: none. */
int client_send(struct client *c, uint64_t deadline, struct err *e);
/* One recv into c->in: > 0, or an error. */
int client_receive(struct client *c, uint64_t deadline, struct err *e);
/* The next frame, whole; its body is valid until the next call. */
int client_frame(struct client *c, struct wire_frame *f, uint32_t body_max,
		 uint64_t deadline, struct err *e);

#endif

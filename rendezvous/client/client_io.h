/* client_io.h: the insides of a client: its connection, which it makes again
 * where it is lost and may, and the way of one request there and back. For
 * client.c; others include client.h. */
#ifndef RENDEZVOUS_CLIENT_IO_H
#define RENDEZVOUS_CLIENT_IO_H

#include <sys/types.h>

#include "base/sock.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/client/client.h"

enum { CLIENT_READ = 16 << 10, CLIENT_READ_RAW = 64 << 10 };

struct client {
	int fd;
	uint32_t id; /* of the request that is being made; never 0 */
	struct endpoint endpoint;
	char at[SOCK_TEXT_MAX];
	struct buf out, in;
	size_t used; /* bytes at the front of in that were handed out */
	struct cipher cipher; /* once both have proved themselves */
	struct buf sealed, raw; /* then: records of out; those that came */
	struct err dead; /* code 0: alive */
	int told;        /* dead is what the server said: it is final */
	int unanswered;  /* closed where a greeting or WELCOME should be */
	char waits[ERR_TEXT_MAX / 2]; /* "; ...": what WAITING said, or "" */
	/* to come again */
	int again_ms; /* for so long; 0: not at all */
	struct err lost;  /* why, first; code 0: since then it has answered */
	uint64_t lost_ms; /* and when, in clock_ms */
	pid_t pid;    /* a child that was forked is not this rank */
	struct auth auth;
	struct wire_hello hello; /* of each connection; in words */
	struct buf words;
	size_t timeout_at;    /* in out: what is left of the request's time */
	uint64_t timeout_end; /* in clock_ms; 0: it has none, but is answered
			       * at once; UINT64_MAX: it waits for ever */
};

/* Fails the connection for good, with the first text that there was. */
int client_die(struct client *c, int code, const char *what, struct err *e);
/* deadline in clock_ms, UINT64_MAX: none. */
int client_send(struct client *c, const struct buf *text, uint64_t deadline,
		struct err *e);
/* From here on all is records under these keys; so is what has come behind
 * what was handed out. */
int client_encrypt(struct client *c, const struct cipher *keys, struct err *e);
/* One recv, whose text goes into c->in: > 0, or an error. */
int client_receive(struct client *c, uint64_t deadline, struct err *e);
/* The next frame, whole; its body is valid until the next call. */
int client_frame(struct client *c, struct wire_frame *f, uint32_t body_max,
		 uint64_t deadline, struct err *e);
/* As if nothing had ever been said on it. */
void client_start_anew(struct client *c);
/* client_connect.c: from an endpoint to a server that is believed. */
int client_open(struct client *c, uint64_t deadline, struct err *e);
/* Sends what is in out and waits for the reply to it, over as many connections
 * as it takes. A server that is there has 10 s beyond the request's own time
 * for it, counted anew on each connection, and longer while it says that a FATE
 * waits; one that is away, again_ms. */
int client_round_trip(struct client *c, struct wire_frame *f, struct err *e);

#endif

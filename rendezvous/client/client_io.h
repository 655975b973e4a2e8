/* client_io.h: what the client's files share: its connection, which is made
 * again after a loss, and the round trip of a request. Others include
 * client.h. */
#ifndef RENDEZVOUS_CLIENT_IO_H
#define RENDEZVOUS_CLIENT_IO_H

#include <sys/types.h>

#include "base/sock.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/client/client.h"

enum { CLIENT_READ = 16 << 10, CLIENT_READ_RAW = 64 << 10 };

struct client {
	int fd;
	uint32_t id; /* the current request's; never 0 */
	struct endpoint endpoint;
	char at[SOCK_TEXT_MAX];
	struct buf out, in;
	size_t used; /* bytes at the front of in that the caller uses */
	struct cipher cipher; /* on once both sides are authenticated */
	struct buf sealed, raw; /* with it: records of out; records received */
	struct err dead; /* code 0: alive */
	int was_refused; /* dead is the server's last message: final */
	int unanswered;  /* closed instead of a greeting or WELCOME */
	char waits[ERR_TEXT_MAX / 2]; /* "; ...": WAITING's text, or "" */
	/* to reconnect */
	int again_ms; /* the time for it; 0: never */
	struct err lost;  /* the first reason; code 0: it has replied since */
	uint64_t lost_ms; /* and when, in clock_ms */
	pid_t pid;    /* a forked child is not this rank */
	struct auth auth;
	struct wire_hello hello; /* for each connection; its strings are in
				  * words */
	struct buf words;
	size_t timeout_at;    /* offset in out of the request's timeout */
	uint64_t timeout_end; /* in clock_ms; 0: no timeout, replied to at once;
			       * UINT64_MAX: no limit */
};

/* Fails the connection for good; keeps the first text. */
int client_die(struct client *c, int code, const char *what, struct err *e);
/* deadline in clock_ms, UINT64_MAX: none. */
int client_send(struct client *c, const struct buf *text, uint64_t deadline,
		struct err *e);
/* Encrypts both directions from here on, including the input after what was
 * handed out. */
int client_encrypt(struct client *c, const struct cipher *keys, struct err *e);
/* One recv; appends its decrypted bytes to c->in. > 0, or an error. */
int client_receive(struct client *c, uint64_t deadline, struct err *e);
/* The next complete frame; its body is valid until the next call. */
int client_frame(struct client *c, struct wire_frame *f, uint32_t body_max,
		 uint64_t deadline, struct err *e);
/* Closes and resets the connection. */
void client_start_anew(struct client *c);
/* client_connect.c: connects and authenticates. */
int client_open(struct client *c, uint64_t deadline, struct err *e);
/* Sends the request in out and waits for its reply, over as many connections as
 * it takes. A connected server has 10 s beyond the request's own timeout, which
 * start over on each connection, and more while it reports that a FATE waits.
 * Without a connection, again_ms applies. */
int client_round_trip(struct client *c, struct wire_frame *f, struct err *e);

#endif

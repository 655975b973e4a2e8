/* round_client.h: a client of the round's store with one request at a time, so
 * that a server that comes back has at most one to answer again
 * (docs/protocol.txt, 4.7). A server that is lost is called again, as the agent
 * does, for as long as the round lasts. Knows no keys. */
#ifndef LAUNCHER_ROUND_CLIENT_H
#define LAUNCHER_ROUND_CLIENT_H

#include "base/loop.h"
#include "rendezvous/client/async_client.h"

struct round_client;

struct round_client_events {
	/* Puts the request: after round_client_call, and again to a server that
	 * came back. */
	void (*put)(struct round_client *c, struct buf *out, uint32_t id);
	/* The reply; the next round_client_call may follow at once. */
	void (*on_reply)(struct round_client *c, const struct wire_frame *f);
	/* The server refused. Not called once the round is over. */
	void (*on_failed)(struct round_client *c, const struct err *why);
	void (*on_closed)(struct round_client *c);
};

/* The rank of this node that calls, and its server. */
struct round_client_self {
	const char *job, *host;
	const struct auth *auth;
	uint32_t round, rank;
	/* Where the server is now. */
	const struct sock_addr *(*find_server)(void *arg);
	void *arg;
};

struct round_client {
	void *owner;
	const struct round_client_events *events;
	struct round_client_self self; /* its pointers outlive c */
	const char *purpose; /* the beginning of a log line */
	uv_loop_t *loop;
	uint64_t session;
	uint32_t id;
	struct async_client link;
	uv_timer_t retry;
	int link_open, is_greeted, is_closing, is_retry_open;
	int is_waiting; /* for the reply to the request */
	int is_over; /* the server lets no rank of this round in */
};

/* Starts to connect. After an error c needs no close. */
int round_client_start(struct round_client *c, uv_loop_t *loop,
		       const struct round_client_self *self,
		       const char *purpose,
		       const struct round_client_events *events, void *owner,
		       struct err *e);
/* A new request; its reply follows. */
void round_client_call(struct round_client *c);
/* on_closed follows, from the loop; then c may be freed. */
void round_client_close(struct round_client *c);

#endif

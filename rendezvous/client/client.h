/* client.h: a blocking client of the rendezvous server, for libddp and tools.
 * One request at a time, one thread at a time. Never prints or starts one. */
#ifndef RENDEZVOUS_CLIENT_H
#define RENDEZVOUS_CLIENT_H

#include "base/sock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/wire.h"

struct client;

/* Connects within timeout_ms; both sides authenticate. With etcd, follows a
 * referral to the job's leader, and retries while there is none (ERR_NOT_YET,
 * ERR_NO_ETCD). On success, free *out with client_free. ERR_TIMEOUT,
 * ERR_PROTOCOL (not a ddprdzv: the text quotes what came instead), ERR_PROOF
 * (one side failed to authenticate; ERR_USAGE if it is the server of this very
 * job and the user's secret is wrong), or the server's refusal. auth need not
 * outlive the call. */
int client_connect(struct client **out, const struct endpoint *ep,
		   const struct wire_hello *hello, const struct auth *auth,
		   int timeout_ms, struct err *e);
/* From now on, reconnects when the connection is lost and repeats the request
 * without reply: the caller only notices the time. The server recognises
 * requests that it has executed by hello's session. timeout_ms counts from the
 * loss; after it the call fails with ERR_REMOTE, and each later call makes one
 * attempt. */
void client_come_again(struct client *c, int timeout_ms);
/* Sends GOODBYE: this rank leaves in order. It may not arrive. */
void client_left(struct client *c);
void client_free(struct client *c); /* NULL is fine; closes */

/* Each call waits for its reply: timeout_ms is the server's to keep where the
 * message has one (WAIT, BARRIER, GATHER, FATE; < 0 for ever); the client
 * allows a server that it is connected to 10 s more, so that one that hangs is
 * an error too. Time without a connection is client_come_again's alone.
 * Returned slices are valid until the next call on c. */
int client_set(struct client *c, struct slice key, struct slice value,
	       struct err *e);
/* 1 found, 0 missing */
int client_get(struct client *c, struct slice key, struct slice *value,
	       struct err *e);
int client_wait(struct client *c, const struct slice *keys, uint32_t n,
		int timeout_ms, struct err *e);
int client_add(struct client *c, struct slice key, int64_t delta,
	       int64_t *value, struct err *e);
int client_compare_set(struct client *c, struct slice key,
		       struct slice expected, struct slice desired,
		       struct slice *value, struct err *e);
int client_append(struct client *c, struct slice key, struct slice value,
		  int64_t *length, struct err *e);
/* 1 deleted, 0 was missing */
int client_delete(struct client *c, struct slice key, struct err *e);
/* values[i].data is NULL where keys[i] is missing */
int client_multi_get(struct client *c, const struct slice *keys, uint32_t n,
		     struct slice *values, struct err *e);
int client_multi_set(struct client *c, const struct slice *keys,
		     const struct slice *values, uint32_t n, struct err *e);
int client_barrier(struct client *c, struct slice key, uint32_t size,
		   int timeout_ms, struct err *e);
/* values: size slices, filled in rank order */
int client_gather(struct client *c, struct slice key, uint32_t size,
		  int timeout_ms, struct slice value, struct slice *values,
		  struct err *e);
/* The same, but for who has it from other ranks (protocol.txt, SHARE): got is
 * what the server says. m says all but how long. */
int client_share(struct client *c, struct wire_share *m, int timeout_ms,
		 struct wire_shared *got, struct err *e);
/* What the last client_share was of, from the server: the list of size values
 * without its count. */
int client_whole(struct client *c, uint32_t size, struct slice *list,
		 struct err *e);
/* 0 and *text: what became of that rank */
int client_fate(struct client *c, uint32_t rank, int timeout_ms,
		struct slice *text, struct err *e);

#endif

/* client.h: a blocking client of the rendezvous server, for libddp and tools.
 * One request at a time, one thread at a time. Never prints and starts no
 * thread. */
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
/* From now on, reconnects after a loss and repeats the unanswered request: the
 * caller notices only the delay. The server recognises executed requests by
 * hello's session. timeout_ms counts from the loss; after it the call fails
 * with ERR_REMOTE, and each later call makes one attempt. */
void client_set_reconnect(struct client *c, int timeout_ms);
/* Sends GOODBYE: this rank leaves in order. May be lost. */
void client_left(struct client *c);
void client_free(struct client *c); /* NULL is fine; closes */

/* Each call waits for its reply. If the message has a timeout (WAIT, BARRIER,
 * GATHER, FATE; < 0: none), the server enforces it; the client allows a
 * connected server 10 s more, so that a server that hangs becomes an error.
 * Time without a connection counts only against client_set_reconnect's.
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
/* values: size slices, filled in rank order */
int client_gather(struct client *c, struct slice key, uint32_t size,
		  int timeout_ms, struct slice value, struct slice *values,
		  struct err *e);
/* The same for ranks that may get the list from other ranks (protocol.txt,
 * SHARE): got is the server's reply. m has all fields but the timeout. */
int client_share(struct client *c, struct wire_share *m, int timeout_ms,
		 struct wire_shared *got, struct err *e);
/* Gets the whole list of the last client_share from the server: size values,
 * without the count. */
int client_whole(struct client *c, uint32_t size, struct slice *list,
		 struct err *e);
/* 0 and *text: how that rank ended. */
int client_fate(struct client *c, uint32_t rank, int timeout_ms,
		struct slice *text, struct err *e);

#endif

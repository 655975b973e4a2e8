/* client_handshake.h: the client's side of authentication, for async_client.c
 * and client.c: greeting in, HELLO out, WELCOME in. No sockets. Asking munge
 * can take seconds: this blocks, or leaves it to an owner with a loop (defers).
 */
#ifndef RENDEZVOUS_CLIENT_HANDSHAKE_H
#define RENDEZVOUS_CLIENT_HANDSHAKE_H

#include "base/sock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/auth/credential.h"

struct handshake {
	const struct auth *auth;
	struct proof key;     /* the job's; with munge, from WELCOME */
	struct buf hello;     /* HELLO's body up to its proof */
	char greeting[WIRE_GREETING_SIZE];
	char proof[WIRE_NAME_MAX];
	size_t proof_size;
	int ours; /* the greeting is from the server of this very job */
	int other_version; /* the server has another version */
	struct cipher cipher; /* for everything after WELCOME */
	int defers; /* the owner asks munge itself: see -EAGAIN below */
	int answered;
	struct credential_question question;
};

/* auth must outlive h, hello need not. A session of 0 becomes a random one. */
int handshake_init(struct handshake *h, const struct auth *auth,
		   const struct wire_hello *hello, struct err *e);
void handshake_release(struct handshake *h);
/* Prepares the same HELLO for another connection, with another nonce. */
int handshake_anew(struct handshake *h, struct err *e);

/* With defers set, the next two calls return -EAGAIN if munge must be asked
 * first: call credential_ask in any thread, on a copy of h->question. Set the
 * answer, then repeat the call with the same bytes. */
static inline void handshake_answer(struct handshake *h,
				    const struct credential_question *q)
{
	h->question = *q;
	h->answered = 1;
}

/* in begins with a greeting or a part of one. Returns its size, with HELLO (id
 * 1) put into out; 0 if more bytes are needed; ERR_PROTOCOL if it is not a
 * greeting (with other_version, send our preface, so that the server can log
 * it); ERR_PROOF if it wants another method of authentication; or out's error.
 */
long handshake_greeted(struct handshake *h, struct slice in, struct buf *out,
		       struct err *e);

/* The reply to HELLO. 1: the server belongs to our job and accepts us; from now
 * on both directions use h->cipher, if it is on (it is off without
 * authentication). 0: it belongs to our job and refuses us; *refusal is the
 * error reply. ERR_PROOF: it does not have the secret; ERR_PROTOCOL. */
int handshake_welcomed(struct handshake *h, const struct wire_frame *f,
		       struct wire_frame *refusal, struct err *e);

/* Whether a refusal is from a ddprdzv that does not lead the job (with etcd):
 * ERR_MOVED, and *there is the leader; ERR_NOT_YET, ERR_NO_ETCD: retry, and e
 * has the reason; ERR_PROTOCOL; 0: it is another refusal. */
int handshake_elsewhere(const struct wire_frame *refusal,
			struct endpoint *there, struct err *e);

/* The server has closed instead of sending WELCOME: why, to follow its name. */
void handshake_explain(const struct handshake *h, char *text, size_t size);

#endif

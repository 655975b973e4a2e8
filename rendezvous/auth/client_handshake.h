/* client_handshake.h: a client's side of the proof, for link.c and client.c:
 * greeting in, HELLO out, WELCOME in. No sockets. Where munge has to be asked,
 * which can take seconds, this waits for it, or leaves it to an owner with a
 * loop. */
#ifndef RENDEZVOUS_CLIENT_HANDSHAKE_H
#define RENDEZVOUS_CLIENT_HANDSHAKE_H

#include "base/sock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/auth/credential.h"

struct handshake {
	const struct auth *auth;
	struct proof key;     /* of the job; by munge WELCOME brings it */
	struct buf hello;     /* HELLO's body up to its proof */
	char greeting[WIRE_GREETING_SIZE];
	char proof[WIRE_NAME_MAX];
	size_t proof_size;
	int ours; /* it greets as the server of this very job */
	int other_version; /* it speaks our protocol, but not as we do */
	struct cipher cipher;    /* for what follows, once we are welcome */
	int defers; /* set by an owner that asks munge itself: see -EAGAIN */
	int answered;
	struct credential_question question;
};

/* auth must outlive h, hello need not. A session of 0 becomes a random one. */
int handshake_init(struct handshake *h, const struct auth *auth,
		   const struct wire_hello *hello, struct err *e);
void handshake_release(struct handshake *h);
/* The same HELLO on another connection: with another nonce. */
int handshake_anew(struct handshake *h, struct err *e);

/* With defers set, the next two calls end with -EAGAIN where munge has to be
 * asked first: credential_ask(&h->question), in any thread, on a copy. With the
 * answer in place the same call is made again, with the same bytes. */
static inline void handshake_answer(struct handshake *h,
				    const struct credential_question *q)
{
	h->question = *q;
	h->answered = 1;
}

/* in begins with a whole greeting or a part of one: its size, with HELLO (id 1)
 * put into out; 0: more of it is needed; else an error: ERR_PROTOCOL it is
 * none (other_version: the server is to be told of it, by our preface),
 * ERR_PROOF it asks for another proof than ours, as the text explains; or
 * out's, which has no room. */
long handshake_greeted(struct handshake *h, struct slice in, struct buf *out,
		       struct err *e);

/* The answer to HELLO: 1: it is the server of our job, and takes us: what
 * goes either way from here on goes through h->cipher, if that is on (it is not
 * where nobody proves anything); 0: it is, and does not: *refusal is an error
 * reply to be told; else an error: ERR_PROOF it does not hold the secret,
 * ERR_PROTOCOL. */
int handshake_welcomed(struct handshake *h, const struct wire_frame *f,
		       struct wire_frame *refusal, struct err *e);

/* The refusal of a ddprdzv that is not the job's server itself, where etcd says
 * who is: ERR_MOVED, and where that is; ERR_NOT_YET, ERR_NO_ETCD: ask again, e
 * says why; ERR_PROTOCOL; 0: it is none of these. */
int handshake_elsewhere(const struct wire_frame *refusal,
			struct endpoint *there, struct err *e);

/* The server has closed where WELCOME should be; what goes after its name. */
void handshake_explain(const struct handshake *h, char *text, size_t size);

#endif

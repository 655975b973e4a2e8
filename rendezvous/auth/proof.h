/* proof.h: keys, and the proofs with which two sides show that they hold the
 * same key and saw the same handshake. Pure; libsodium does the cryptography.
 * The caller wipes its secrets (proof_wipe). */
#ifndef RENDEZVOUS_PROOF_H
#define RENDEZVOUS_PROOF_H

#include "rendezvous/wire.h"

enum {
	PROOF_SIZE = 32, /* keys, proofs and hashes */
	PROOF_HEX_SIZE = 2 * PROOF_SIZE + 1,
};

struct proof {
	unsigned char bytes[PROOF_SIZE];
};

/* The bytes that both sides saw before the client's proof. */
struct proof_talk {
	struct slice greeting; /* WIRE_GREETING_SIZE bytes */
	struct slice hello;    /* HELLO's body up to its proof */
};

/* Derives a secret from the user's text. */
void proof_secret(struct proof *secret, struct slice text);
/* Derives a job's key, from which neither the secret nor another job's key can
 * be computed. */
void proof_job_key(struct proof *key, const struct proof *secret,
		   struct slice job);

/* The client's proof, and the server's, which covers all of the client's and
 * its own answer (WELCOME's body up to its proof). Neither passes for the
 * other. */
void proof_of_client(struct proof *out, const struct proof *key,
		     const struct proof_talk *t);
void proof_of_server(struct proof *out, const struct proof *key,
		     const struct proof_talk *t, struct slice client_proof,
		     struct slice welcome);
/* The keys after WELCOME, one for each direction, for this connection alone:
 * they depend on both sides' random bytes. */
void proof_stream_keys(struct proof *of_client, struct proof *of_server,
		       const struct proof *key, const struct proof_talk *t,
		       struct slice client_proof, struct slice welcome);
/* The hash of the handshake, for munge to sign. */
void proof_hash(struct proof *out, const struct proof_talk *t);
void proof_hash_grant(struct proof *out, const struct proof_talk *t,
		      struct slice client_proof);
/* Marks a sealed key (elected_server.c) of that job, unlike all else that munge
 * signs. */
void proof_hash_seal(struct proof *out, struct slice job);

/* For a greeting with this nonce: names the server's only job, in
 * out[WIRE_WHICH_SIZE]. It proves nothing. */
void proof_which(void *out, const void *nonce, struct slice job);

/* Compares in constant time. */
int proof_same(const struct proof *a, struct slice b);
void proof_wipe(void *p, size_t size);

/* 64 hex digits and a NUL in out[PROOF_HEX_SIZE]; and back: 0, or -1 if the
 * text is invalid. */
void proof_to_hex(char *out, const struct proof *p);
int proof_from_hex(struct proof *p, const char *text);

#endif

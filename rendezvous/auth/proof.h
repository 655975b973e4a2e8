/* proof.h: keys, and the proofs that two sides make with one: that each holds
 * it, and saw what the other saw. Pure; libsodium does the cryptography, and
 * what is secret is wiped by whoever made it (proof_wipe). */
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

/* What both sides of a connection saw of it before the client's proof. */
struct proof_talk {
	struct slice greeting; /* WIRE_GREETING_SIZE bytes */
	struct slice hello;    /* HELLO's body up to its proof */
};

/* The secret that a user's text stands for. */
void proof_secret(struct proof *secret, struct slice text);
/* The key of one job: who has it cannot tell the secret, or another job's. */
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
/* The keys of what follows WELCOME, one for each direction: of this connection
 * alone, as both sides' random bytes are in it. */
void proof_stream_keys(struct proof *of_client, struct proof *of_server,
		       const struct proof *key, const struct proof_talk *t,
		       struct slice client_proof, struct slice welcome);
/* What stands for all of it where something else signs (munge). */
void proof_hash(struct proof *out, const struct proof_talk *t);
void proof_hash_grant(struct proof *out, const struct proof_talk *t,
		      struct slice client_proof);
/* What tells a sealed key (seal.h) of that job from all else that it signs. */
void proof_hash_seal(struct proof *out, struct slice job);

/* Into out[WIRE_WHICH_SIZE], for a greeting with these random bytes: that the
 * server is that job's alone. No proof of anything. */
void proof_which(void *out, const void *nonce, struct slice job);

/* In a time that does not tell where they differ. */
int proof_same(const struct proof *a, struct slice b);
void proof_wipe(void *p, size_t size);

/* 64 hex digits and a NUL into out[PROOF_HEX_SIZE]; 0, or -1: they are none. */
void proof_to_hex(char *out, const struct proof *p);
int proof_from_hex(struct proof *p, const char *text);

#endif

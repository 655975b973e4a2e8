/* proof.c: what is hashed and authenticated, in which order. Each part is
 * preceded by its length, so that different handshakes never give the same
 * bytes. */
#include "rendezvous/auth/proof.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

static_assert(PROOF_SIZE == crypto_auth_hmacsha512256_BYTES &&
	      PROOF_SIZE == crypto_auth_hmacsha512256_KEYBYTES &&
	      PROOF_SIZE == crypto_generichash_BYTES &&
	      PROOF_SIZE == crypto_generichash_KEYBYTES, "libsodium's sizes");

/* A keyed or plain hash, which takes its input in pieces. */
struct sum {
	int keyed;
	union {
		crypto_auth_hmacsha512256_state mac;
		crypto_generichash_state hash;
	} in;
};

static void proof_hash_add(struct sum *s, const void *data, size_t n)
{
	if (s->keyed)
		crypto_auth_hmacsha512256_update(&s->in.mac, data, n);
	else
		crypto_generichash_update(&s->in.hash, data, n);
}

static void proof_hash_add_part(struct sum *s, struct slice part)
{
	unsigned char len[8];

	for (int i = 0; i < 8; i++)
		len[i] = (unsigned char)((uint64_t)part.len >> (8 * i));
	proof_hash_add(s, len, sizeof(len));
	proof_hash_add(s, part.data, part.len);
}

/* key NULL: an unkeyed hash. */
static void proof_hash_begin(struct sum *s, const struct proof *key,
			     const char *what)
{
	s->keyed = key != NULL;
	if (key)
		crypto_auth_hmacsha512256_init(&s->in.mac, key->bytes,
					       sizeof(key->bytes));
	else
		crypto_generichash_init(&s->in.hash, NULL, 0, PROOF_SIZE);
	proof_hash_add_part(s, SLICE_STR(what));
}

static void proof_hash_add_talk(struct sum *s, const struct proof_talk *t)
{
	proof_hash_add_part(s, SLICE(wire_preface, WIRE_PREFACE_SIZE));
	proof_hash_add_part(s, t->greeting);
	proof_hash_add_part(s, t->hello);
}

static void proof_hash_end(struct sum *s, struct proof *out)
{
	if (s->keyed)
		crypto_auth_hmacsha512256_final(&s->in.mac, out->bytes);
	else
		crypto_generichash_final(&s->in.hash, out->bytes, PROOF_SIZE);
	sodium_memzero(s, sizeof(*s));
}

void proof_secret(struct proof *secret, struct slice text)
{
	struct sum s;

	proof_hash_begin(&s, NULL, "ddprun secret 2");
	proof_hash_add_part(&s, text);
	proof_hash_end(&s, secret);
}

void proof_job_key(struct proof *key, const struct proof *secret,
		   struct slice job)
{
	crypto_generichash_state s;
	static const char what[] = "ddprun job";

	/* `what` has a fixed length, so it needs no length prefix */
	crypto_generichash_init(&s, secret->bytes, PROOF_SIZE, PROOF_SIZE);
	crypto_generichash_update(&s, (const unsigned char *)what,
				  sizeof(what));
	crypto_generichash_update(&s, (const unsigned char *)job.data, job.len);
	crypto_generichash_final(&s, key->bytes, PROOF_SIZE);
	sodium_memzero(&s, sizeof(s));
}

void proof_of_client(struct proof *out, const struct proof *key,
		     const struct proof_talk *t)
{
	struct sum s;

	proof_hash_begin(&s, key, "ddprun client 2");
	proof_hash_add_talk(&s, t);
	proof_hash_end(&s, out);
}

void proof_of_server(struct proof *out, const struct proof *key,
		     const struct proof_talk *t, struct slice client_proof,
		     struct slice welcome)
{
	struct sum s;

	proof_hash_begin(&s, key, "ddprun server 2");
	proof_hash_add_talk(&s, t);
	proof_hash_add_part(&s, client_proof);
	proof_hash_add_part(&s, welcome);
	proof_hash_end(&s, out);
}

static void proof_stream_key(struct proof *out, const char *what,
			     const struct proof *key,
			     const struct proof_talk *t,
			     struct slice client_proof, struct slice welcome)
{
	struct sum s;

	proof_hash_begin(&s, key, what);
	proof_hash_add_talk(&s, t);
	proof_hash_add_part(&s, client_proof);
	proof_hash_add_part(&s, welcome);
	proof_hash_end(&s, out);
}

void proof_stream_keys(struct proof *of_client, struct proof *of_server,
		       const struct proof *key, const struct proof_talk *t,
		       struct slice client_proof, struct slice welcome)
{
	proof_stream_key(of_client, "ddprun stream client 4", key, t,
			 client_proof, welcome);
	proof_stream_key(of_server, "ddprun stream server 4", key, t,
			 client_proof, welcome);
}

void proof_hash(struct proof *out, const struct proof_talk *t)
{
	struct sum s;

	proof_hash_begin(&s, NULL, "ddprun munge client 2");
	proof_hash_add_talk(&s, t);
	proof_hash_end(&s, out);
}

void proof_hash_grant(struct proof *out, const struct proof_talk *t,
		      struct slice client_proof)
{
	struct sum s;

	proof_hash_begin(&s, NULL, "ddprun munge server 2");
	proof_hash_add_talk(&s, t);
	proof_hash_add_part(&s, client_proof);
	proof_hash_end(&s, out);
}

void proof_hash_seal(struct proof *out, struct slice job)
{
	struct sum s;

	proof_hash_begin(&s, NULL, "ddprun munge key 2");
	proof_hash_add_part(&s, job);
	proof_hash_end(&s, out);
}

void proof_which(void *out, const void *nonce, struct slice job)
{
	struct proof p;
	struct sum s;

	proof_hash_begin(&s, NULL, "ddprun which 2");
	proof_hash_add_part(&s, SLICE(nonce, WIRE_NONCE_SIZE));
	proof_hash_add_part(&s, job);
	proof_hash_end(&s, &p);
	memcpy(out, p.bytes, WIRE_WHICH_SIZE);
}

int proof_same(const struct proof *a, struct slice b)
{
	return b.len == PROOF_SIZE &&
	       sodium_memcmp(a->bytes, b.data, PROOF_SIZE) == 0;
}

void proof_wipe(void *p, size_t size)
{
	sodium_memzero(p, size);
}

void proof_to_hex(char *out, const struct proof *p)
{
	sodium_bin2hex(out, PROOF_HEX_SIZE, p->bytes, PROOF_SIZE);
}

int proof_from_hex(struct proof *p, const char *text)
{
	size_t n;

	if (strlen(text) != 2 * PROOF_SIZE ||
	    sodium_hex2bin(p->bytes, PROOF_SIZE, text, 2 * PROOF_SIZE, NULL,
			   &n, NULL) != 0)
		return -1;
	return n == PROOF_SIZE ? 0 : -1;
}

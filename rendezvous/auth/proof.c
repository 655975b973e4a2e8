/* proof.c: what is hashed and signed, in which order. Each part goes in with
 * its length before it, so that no two different talks give the same bytes. */
#include "rendezvous/auth/proof.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

static_assert(PROOF_SIZE == crypto_auth_hmacsha512256_BYTES &&
	      PROOF_SIZE == crypto_auth_hmacsha512256_KEYBYTES &&
	      PROOF_SIZE == crypto_generichash_BYTES &&
	      PROOF_SIZE == crypto_generichash_KEYBYTES, "libsodium's sizes");

/* Both kinds take their input in pieces. */
struct sum {
	int keyed;
	union {
		crypto_auth_hmacsha512256_state mac;
		crypto_generichash_state hash;
	} in;
};

static void add(struct sum *s, const void *data, size_t n)
{
	if (s->keyed)
		crypto_auth_hmacsha512256_update(&s->in.mac, data, n);
	else
		crypto_generichash_update(&s->in.hash, data, n);
}

static void add_part(struct sum *s, struct slice part)
{
	unsigned char len[8];

	for (int i = 0; i < 8; i++)
		len[i] = (unsigned char)((uint64_t)part.len >> (8 * i));
	add(s, len, sizeof(len));
	add(s, part.data, part.len);
}

/* key NULL: a hash that anybody can make. */
static void begin(struct sum *s, const struct proof *key, const char *what)
{
	s->keyed = key != NULL;
	if (key)
		crypto_auth_hmacsha512256_init(&s->in.mac, key->bytes,
					       sizeof(key->bytes));
	else
		crypto_generichash_init(&s->in.hash, NULL, 0, PROOF_SIZE);
	add_part(s, SLICE_STR(what));
}

static void add_talk(struct sum *s, const struct proof_talk *t)
{
	add_part(s, SLICE(wire_preface, WIRE_PREFACE_SIZE));
	add_part(s, t->greeting);
	add_part(s, t->hello);
}

static void end(struct sum *s, struct proof *out)
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

	begin(&s, NULL, "ddprun secret 2");
	add_part(&s, text);
	end(&s, secret);
}

void proof_job_key(struct proof *key, const struct proof *secret,
		   struct slice job)
{
	crypto_generichash_state s;
	static const char what[] = "ddprun job";

	/* what has a fixed length needs no other mark of its end */
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

	begin(&s, key, "ddprun client 2");
	add_talk(&s, t);
	end(&s, out);
}

void proof_of_server(struct proof *out, const struct proof *key,
		     const struct proof_talk *t, struct slice client_proof,
		     struct slice welcome)
{
	struct sum s;

	begin(&s, key, "ddprun server 2");
	add_talk(&s, t);
	add_part(&s, client_proof);
	add_part(&s, welcome);
	end(&s, out);
}

static void stream_key(struct proof *out, const char *what,
		       const struct proof *key, const struct proof_talk *t,
		       struct slice client_proof, struct slice welcome)
{
	struct sum s;

	begin(&s, key, what);
	add_talk(&s, t);
	add_part(&s, client_proof);
	add_part(&s, welcome);
	end(&s, out);
}

void proof_stream_keys(struct proof *of_client, struct proof *of_server,
		       const struct proof *key, const struct proof_talk *t,
		       struct slice client_proof, struct slice welcome)
{
	stream_key(of_client, "ddprun stream client 4", key, t, client_proof,
		   welcome);
	stream_key(of_server, "ddprun stream server 4", key, t, client_proof,
		   welcome);
}

void proof_hash(struct proof *out, const struct proof_talk *t)
{
	struct sum s;

	begin(&s, NULL, "ddprun munge client 2");
	add_talk(&s, t);
	end(&s, out);
}

void proof_hash_grant(struct proof *out, const struct proof_talk *t,
		      struct slice client_proof)
{
	struct sum s;

	begin(&s, NULL, "ddprun munge server 2");
	add_talk(&s, t);
	add_part(&s, client_proof);
	end(&s, out);
}

void proof_hash_seal(struct proof *out, struct slice job)
{
	struct sum s;

	begin(&s, NULL, "ddprun munge key 2");
	add_part(&s, job);
	end(&s, out);
}

void proof_which(void *out, const void *nonce, struct slice job)
{
	struct proof p;
	struct sum s;

	begin(&s, NULL, "ddprun which 2");
	add_part(&s, SLICE(nonce, WIRE_NONCE_SIZE));
	add_part(&s, job);
	end(&s, &p);
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

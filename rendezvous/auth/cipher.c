/* cipher.c: nonces, lengths and error texts; libsodium does the
 * cryptography. */
#include "rendezvous/auth/cipher.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "base/random.h"
#include "rendezvous/wire.h"

static_assert(CIPHER_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES &&
	      PROOF_SIZE == crypto_aead_chacha20poly1305_ietf_KEYBYTES,
	      "libsodium's sizes");

/* ---- keys ---- */

void cipher_start(struct cipher *c, enum cipher_end end,
		  const struct proof *of_client, const struct proof *of_server)
{
	int is_client = end == CIPHER_CLIENT;

	/* selects the fastest implementation, once; without it, the slowest one
	 * gives the same results */
	(void)!sodium_init();
	c->on = 1;
	c->out = (struct cipher_way){is_client ? *of_client : *of_server, 0};
	c->in = (struct cipher_way){is_client ? *of_server : *of_client, 0};
}

void cipher_wipe(struct cipher *c)
{
	sodium_memzero(c, sizeof(*c));
}

/* ---- records ---- */

struct nonce {
	unsigned char bytes[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
};

/* A key never encrypts 2^64 records, so no nonce repeats. */
static struct nonce cipher_next_nonce(struct cipher_way *w)
{
	struct nonce n = {{0}};

	for (int i = 0; i < 8; i++)
		n.bytes[i] = (unsigned char)(w->count >> 8 * i);
	w->count++;
	return n;
}

static void cipher_seal_one(struct cipher_way *w, struct slice text,
			    struct buf *out)
{
	struct nonce nonce = cipher_next_nonce(w);
	unsigned char *to;

	buf_put_u32(out, (uint32_t)text.len);
	to = (unsigned char *)buf_reserve(out, text.len + CIPHER_TAG);
	if (!to)
		return;
	crypto_aead_chacha20poly1305_ietf_encrypt(
		to, NULL, (const unsigned char *)text.data, text.len,
		to - CIPHER_HEADER, CIPHER_HEADER, NULL, nonce.bytes,
		w->key.bytes);
	out->len += text.len + CIPHER_TAG;
}

void cipher_seal(struct cipher_way *w, struct slice text, struct buf *out)
{
	struct slice part;

	while (text.len && !out->failed) {
		part = text;
		if (part.len > CIPHER_TEXT_MAX)
			part.len = CIPHER_TEXT_MAX;
		cipher_seal_one(w, part, out);
		text = SLICE(text.data + part.len, text.len - part.len);
	}
}

long cipher_size(const struct cipher_way *w, struct slice in, struct err *e)
{
	struct reader r;
	uint32_t n;

	if (in.len < CIPHER_HEADER)
		return 0;
	reader_init(&r, in);
	n = reader_u32(&r);
	if (n == 0 || n > CIPHER_TEXT_MAX)
		return err_set(e, ERR_REMOTE,
			       "the connection was tampered with: record %llu "
			       "has %u bytes, but the limit is %d",
			       (unsigned long long)w->count, n,
			       CIPHER_TEXT_MAX);
	return (long)n + CIPHER_EXTRA;
}

int cipher_open(struct cipher_way *w, struct slice record, char *to,
		struct err *e)
{
	const unsigned char *from = (const unsigned char *)record.data;
	struct nonce nonce = cipher_next_nonce(w);

	if (crypto_aead_chacha20poly1305_ietf_decrypt(
		    (unsigned char *)to, NULL, NULL, from + CIPHER_HEADER,
		    record.len - CIPHER_HEADER, from, CIPHER_HEADER,
		    nonce.bytes, w->key.bytes) == 0)
		return 0;
	return err_set(e, ERR_REMOTE,
		       "the connection was tampered with: record %llu does not "
		       "authenticate; something on the path changes, repeats "
		       "or drops data",
		       (unsigned long long)w->count - 1);
}

int cipher_take(struct cipher_way *w, struct buf *raw, struct buf *in,
		struct err *e)
{
	size_t used = 0;
	int rc = 0;

	while (rc == 0) {
		struct slice left = SLICE(raw->data + used, raw->len - used);
		long n = cipher_size(w, left, e);
		char *to;

		rc = n < 0 ? (int)n : 0;
		if (n <= 0 || left.len < (size_t)n)
			break;
		to = buf_reserve(in, (size_t)n - CIPHER_EXTRA);
		rc = to ? cipher_open(w, SLICE(left.data, (size_t)n), to, e)
			: err_set(e, in->failed,
				  "out of memory for received data");
		if (rc == 0)
			in->len += (size_t)n - CIPHER_EXTRA;
		used += (size_t)n;
	}
	buf_consume(raw, used);
	return rc;
}

/* ---- lists that are passed on ---- */

static void cipher_relay_key(unsigned char out[PROOF_SIZE], const char *token,
			     const char *use, const void *random)
{
	crypto_generichash_state s;

	crypto_generichash_init(&s, (const unsigned char *)token,
				WIRE_TOKEN_SIZE, PROOF_SIZE);
	crypto_generichash_update(&s, (const unsigned char *)use, strlen(use));
	crypto_generichash_update(&s, random, CIPHER_RELAY_RANDOM);
	crypto_generichash_final(&s, out, PROOF_SIZE);
	sodium_memzero(&s, sizeof(s));
}

int cipher_relay_hello(unsigned char hello[CIPHER_RELAY_HELLO],
		       const char *token, struct err *e)
{
	int rc = random_bytes(hello, CIPHER_RELAY_RANDOM, e);

	if (rc < 0)
		return rc;
	cipher_relay_key(hello + CIPHER_RELAY_RANDOM, token,
			 "ddprun share hello", hello);
	return 0;
}

int cipher_is_relay_hello(const unsigned char hello[CIPHER_RELAY_HELLO],
			  const char *token)
{
	unsigned char right[PROOF_SIZE];

	cipher_relay_key(right, token, "ddprun share hello", hello);
	return !sodium_memcmp(hello + CIPHER_RELAY_RANDOM, right,
			      sizeof(right));
}

void cipher_relay_way(struct cipher_way *w, const char *token,
		      const void *salt)
{
	(void)!sodium_init(); /* as in cipher_start */
	w->count = 0;
	cipher_relay_key(w->key.bytes, token, "ddprun share list", salt);
}

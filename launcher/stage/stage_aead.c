/* stage_aead.c: the extended nonce (draft-irtf-cfrg-xchacha) around libcrypto's
 * ChaCha20-Poly1305 (RFC 8439). */
#include "launcher/stage/stage_aead.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "base/dynlib.h"

enum { GET_TAG = 0x10, SET_TAG = 0x11 }; /* EVP_CTRL_AEAD_... */

static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == STAGE_AEAD_KEY &&
	      crypto_aead_xchacha20poly1305_ietf_NPUBBYTES ==
		      STAGE_AEAD_NONCE &&
	      crypto_aead_xchacha20poly1305_ietf_ABYTES == STAGE_AEAD_TAG,
	      "libsodium's sizes");

static void *aead_load(struct stage_aead *a)
{
	static const struct dynlib_symbol rows[] = {
		DYNLIB_SYMBOL(struct stage_aead, context_new,
			      "EVP_CIPHER_CTX_new"),
		DYNLIB_SYMBOL(struct stage_aead, context_free,
			      "EVP_CIPHER_CTX_free"),
		DYNLIB_SYMBOL(struct stage_aead, chacha20_poly1305,
			      "EVP_chacha20_poly1305"),
		DYNLIB_SYMBOL(struct stage_aead, init, "EVP_CipherInit_ex"),
		DYNLIB_SYMBOL(struct stage_aead, control,
			      "EVP_CIPHER_CTX_ctrl"),
		DYNLIB_SYMBOL(struct stage_aead, update, "EVP_CipherUpdate"),
		DYNLIB_SYMBOL(struct stage_aead, final, "EVP_CipherFinal_ex"),
	};
	struct dynlib crypto = {
		"libcrypto.so.3", "libsodium encrypts staged files",
		"package libssl3 on Debian", rows,
		sizeof(rows) / sizeof(*rows)};

	return dynlib_load(&crypto, a, NULL);
}

/* A libcrypto in FIPS mode has no ChaCha20. */
void stage_aead_open(struct stage_aead *a)
{
	static const unsigned char zeroes[STAGE_AEAD_KEY];

	*a = (struct stage_aead){NULL};
	a->library = aead_load(a);
	if (!a->library)
		return;
	a->context = a->context_new();
	if (a->context && a->init(a->context, a->chacha20_poly1305(), NULL,
				  zeroes, zeroes, 1) == 1)
		return;
	stage_aead_close(a);
	a->library = NULL;
}

void stage_aead_close(struct stage_aead *a)
{
	if (a->context)
		a->context_free(a->context);
	a->context = NULL;
}

/* The key and nonce of the RFC's cipher, and the authenticated head. */
static int aead_begin(struct stage_aead *a, const struct stage_aead_input *in,
		      int encrypts)
{
	unsigned char key[STAGE_AEAD_KEY], nonce[12] = {0};
	int n, ok;

	crypto_core_hchacha20(key, in->nonce, in->key, NULL);
	memcpy(nonce + 4, in->nonce + 16, 8);
	ok = a->init(a->context, NULL, NULL, key, nonce, encrypts) == 1 &&
	     a->update(a->context, NULL, &n, in->head, (int)in->nhead) == 1;
	sodium_memzero(key, sizeof(key));
	return ok;
}

void stage_aead_encrypt(struct stage_aead *a, const struct stage_aead_input *in,
			unsigned char *to, const unsigned char *text, size_t n)
{
	int done;

	if (a->library && aead_begin(a, in, 1) &&
	    a->update(a->context, to, &done, text, (int)n) == 1 &&
	    a->final(a->context, to + n, &done) == 1 &&
	    a->control(a->context, GET_TAG, STAGE_AEAD_TAG, to + n) == 1)
		return;
	crypto_aead_xchacha20poly1305_ietf_encrypt(to, NULL, text, n, in->head,
						   in->nhead, NULL, in->nonce,
						   in->key);
}

int stage_aead_decrypt(struct stage_aead *a, const struct stage_aead_input *in,
		       unsigned char *text, const unsigned char *from, size_t n)
{
	unsigned char tag[STAGE_AEAD_TAG];
	int done;

	memcpy(tag, from + n, sizeof(tag));
	if (a->library && aead_begin(a, in, 0) &&
	    a->control(a->context, SET_TAG, STAGE_AEAD_TAG, tag) == 1 &&
	    a->update(a->context, text, &done, from, (int)n) == 1)
		return a->final(a->context, text + n, &done) == 1 ? 0 : -1;
	return crypto_aead_xchacha20poly1305_ietf_decrypt(
		text, NULL, NULL, from, n + STAGE_AEAD_TAG, in->head, in->nhead,
		in->nonce, in->key);
}

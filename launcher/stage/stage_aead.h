/* stage_aead.h: XChaCha20-Poly1305 with the bytes of libsodium, computed by
 * OpenSSL's libcrypto if this host has it: that uses wider instructions, and
 * encrypting is most of the CPU time of a staged byte. */
#ifndef LAUNCHER_STAGE_AEAD_H
#define LAUNCHER_STAGE_AEAD_H

#include <stddef.h>

enum { STAGE_AEAD_KEY = 32, STAGE_AEAD_NONCE = 24, STAGE_AEAD_TAG = 16 };

struct stage_aead {
	void *library; /* libcrypto; NULL: none, or it has no ChaCha20 */
	void *context;
	void *(*context_new)(void);
	void (*context_free)(void *context);
	const void *(*chacha20_poly1305)(void);
	int (*init)(void *context, const void *cipher, void *engine,
		    const unsigned char *key, const unsigned char *nonce,
		    int encrypts);
	int (*control)(void *context, int what, int n, void *arg);
	int (*update)(void *context, unsigned char *to, int *written,
		      const unsigned char *from, int n);
	int (*final)(void *context, unsigned char *to, int *written);
};

void stage_aead_open(struct stage_aead *a);
void stage_aead_close(struct stage_aead *a);

struct stage_aead_input {
	const unsigned char *key, *nonce;
	const unsigned char *head; /* is authenticated as well */
	size_t nhead;
};

/* n bytes of text, at most 1 GiB, and the tag to `to`. */
void stage_aead_encrypt(struct stage_aead *a, const struct stage_aead_input *in,
			unsigned char *to, const unsigned char *text, size_t n);
/* The other way: n bytes of text. -1: it does not authenticate, and the bytes
 * in text are invalid. */
int stage_aead_decrypt(struct stage_aead *a, const struct stage_aead_input *in,
		       unsigned char *text, const unsigned char *from,
		       size_t n);

#endif

/* bench_cipher.c: the speed at which libsodium encrypts and decrypts records as
 * libddp makes them for --encrypt-data, on one CPU. Prints the cipher that two
 * hosts like this one agree on, and GB/s of both, each the fastest of several
 * rounds. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "worker-sdk/tcp/tcp_secure.h"

enum {
	RECORDS = 256, /* 16 MiB: not from the caches */
	RECORD = DDP__SECURE_TEXT + 16,
	ROUNDS = 20
};

static crypto_aead_aes256gcm_state aes __attribute__((aligned(64)));
static const unsigned char key[32] = {1};
static unsigned char *text, *sealed;
static int has_aes;

static double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int seal(int i)
{
	unsigned char nonce[12] = {(unsigned char)i}, head[4] = {0};
	unsigned char *to = sealed + (size_t)i * RECORD;
	const unsigned char *from = text + (size_t)i * DDP__SECURE_TEXT;

	return has_aes ? crypto_aead_aes256gcm_encrypt_afternm(
				 to, NULL, from, DDP__SECURE_TEXT, head, 4,
				 NULL, nonce, &aes)
		       : crypto_aead_chacha20poly1305_ietf_encrypt(
				 to, NULL, from, DDP__SECURE_TEXT, head, 4,
				 NULL, nonce, key);
}

static int open_one(int i)
{
	unsigned char nonce[12] = {(unsigned char)i}, head[4] = {0};
	const unsigned char *from = sealed + (size_t)i * RECORD;
	unsigned char *to = text + (size_t)i * DDP__SECURE_TEXT;

	return has_aes ? crypto_aead_aes256gcm_decrypt_afternm(
				 to, NULL, NULL, from, RECORD, head, 4, nonce,
				 &aes)
		       : crypto_aead_chacha20poly1305_ietf_decrypt(
				 to, NULL, NULL, from, RECORD, head, 4, nonce,
				 key);
}

/* GB/s of all records */
static double speed(int (*work)(int i))
{
	double began = cpu_seconds();

	for (int i = 0; i < RECORDS; i++) {
		if (work(i)) {
			fprintf(stderr, "bench_cipher: record %d failed\n", i);
			exit(1);
		}
	}
	return (double)RECORDS * DDP__SECURE_TEXT / (cpu_seconds() - began) /
	       1e9;
}

int main(void)
{
	double seals = 0, opens = 0, v;

	text = calloc(RECORDS, DDP__SECURE_TEXT);
	sealed = calloc(RECORDS, RECORD);
	if (!text || !sealed || sodium_init() < 0)
		return 1;
	has_aes = crypto_aead_aes256gcm_is_available();
	if (has_aes)
		crypto_aead_aes256gcm_beforenm(&aes, key);
	for (int i = 0; i < ROUNDS; i++) {
		v = speed(seal);
		seals = v > seals ? v : seals;
		v = speed(open_one);
		opens = v > opens ? v : opens;
	}
	printf("%s %.3f %.3f\n", has_aes ? "AES-256-GCM" : "ChaCha20-Poly1305",
	       seals, opens);
	return 0;
}

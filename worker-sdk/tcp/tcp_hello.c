/* tcp_hello.c: the exchange of tcp_hello.h. The MACs are keyed BLAKE2b. */
#include "worker-sdk/tcp/tcp_hello.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

#include "base/random.h"

static_assert(sizeof(struct ddp__link) == 28, "it is sent as it is");
static_assert(DDP__MAC == crypto_generichash_BYTES &&
	      DDP__KEY == crypto_generichash_KEYBYTES &&
	      (int)DDP__MAC == (int)DDP__KEY,
	      "libsodium's sizes");

/* The first byte of the signed text: the end whose proof, or whose key, it is
 * for. */
enum { CALLER, LISTENER, KEY_OF_CALLER, KEY_OF_LISTENER };

static void hello_mac(unsigned char out[DDP__MAC], unsigned char side,
		      const struct ddp__hello *h,
		      const unsigned char key[DDP__KEY])
{
	crypto_generichash_state s;

	crypto_generichash_init(&s, key, DDP__KEY, DDP__MAC);
	crypto_generichash_update(&s, &side, 1);
	crypto_generichash_update(&s, (const unsigned char *)&h->caller,
				  sizeof(h->caller));
	crypto_generichash_update(&s, (const unsigned char *)&h->listener,
				  sizeof(h->listener));
	crypto_generichash_update(&s, h->nonces[0], sizeof(h->nonces));
	crypto_generichash_final(&s, out, DDP__MAC);
	sodium_memzero(&s, sizeof(s));
}

static int hello_is_mac(const unsigned char *seen, unsigned char side,
			const struct ddp__hello *h,
			const unsigned char key[DDP__KEY])
{
	unsigned char right[DDP__MAC];

	hello_mac(right, side, h, key);
	return !sodium_memcmp(seen, right, DDP__MAC);
}

static int hello_send(int fd, const void *data, size_t n)
{
	return send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n
		       ? 0
		       : -EPIPE;
}

/* Reads until n bytes are there, over several calls; then starts over. */
static int hello_recv(struct ddp__hello *h, int fd, size_t n)
{
	ssize_t r = recv(fd, h->in + h->got, n - h->got, MSG_DONTWAIT);

	if (r < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	h->got += (size_t)r;
	if (h->got == n) {
		h->got = 0;
		return 1;
	}
	return r == 0 ? -EPIPE : 0;
}

static int hello_new_nonce(unsigned char nonce[DDP__NONCE])
{
	struct err e = ERR_INIT;

	return random_bytes(nonce, DDP__NONCE, &e) < 0 ? -EPIPE : 0;
}

int ddp__hello_call(struct ddp__hello *h, int fd, const struct ddp__link *me)
{
	unsigned char out[sizeof(*me) + DDP__NONCE];

	memset(h, 0, sizeof(*h));
	h->caller = *me;
	if (hello_new_nonce(h->nonces[CALLER]))
		return -EPIPE;
	memcpy(out, me, sizeof(*me));
	memcpy(out + sizeof(*me), h->nonces[CALLER], DDP__NONCE);
	return hello_send(fd, out, sizeof(out));
}

int ddp__hello_answered(struct ddp__hello *h, int fd,
			const unsigned char key[DDP__KEY])
{
	unsigned char proof[DDP__MAC];
	int rc = hello_recv(h, fd, sizeof(h->in));

	if (rc <= 0)
		return rc;
	memcpy(&h->listener, h->in, sizeof(h->listener));
	memcpy(h->nonces[LISTENER], h->in + sizeof(h->listener), DDP__NONCE);
	if (!ddp__link_fits(&h->caller, &h->listener) ||
	    !hello_is_mac(h->in + sizeof(h->listener) + DDP__NONCE, LISTENER, h,
			  key))
		return -EPROTO;
	hello_mac(proof, CALLER, h, key);
	rc = hello_send(fd, proof, sizeof(proof));
	return rc ? rc : 1;
}

int ddp__hello_called(struct ddp__hello *h, int fd)
{
	int rc = hello_recv(h, fd, sizeof(h->caller) + DDP__NONCE);

	if (rc <= 0)
		return rc;
	memcpy(&h->caller, h->in, sizeof(h->caller));
	memcpy(h->nonces[CALLER], h->in + sizeof(h->caller), DDP__NONCE);
	return 1;
}

int ddp__hello_answer(struct ddp__hello *h, int fd, const struct ddp__link *me,
		      const unsigned char key[DDP__KEY])
{
	unsigned char out[sizeof(h->in)];

	h->listener = *me;
	if (hello_new_nonce(h->nonces[LISTENER]))
		return -EPIPE;
	memcpy(out, me, sizeof(*me));
	memcpy(out + sizeof(*me), h->nonces[LISTENER], DDP__NONCE);
	hello_mac(out + sizeof(*me) + DDP__NONCE, LISTENER, h, key);
	return hello_send(fd, out, sizeof(out));
}

int ddp__hello_proved(struct ddp__hello *h, int fd,
		      const unsigned char key[DDP__KEY])
{
	int rc = hello_recv(h, fd, DDP__MAC);

	if (rc <= 0)
		return rc;
	return hello_is_mac(h->in, CALLER, h, key) ? 1 : -EPROTO;
}

void ddp__hello_keys(const struct ddp__hello *h,
		     const unsigned char key[DDP__KEY],
		     unsigned char keys[2][DDP__KEY])
{
	hello_mac(keys[CALLER], KEY_OF_CALLER, h, key);
	hello_mac(keys[LISTENER], KEY_OF_LISTENER, h, key);
}

int ddp__link_fits(const struct ddp__link *a, const struct ddp__link *b)
{
	return !memcmp(a->magic, b->magic, sizeof(a->magic)) &&
	       a->round == b->round && a->from == b->to && a->to == b->from &&
	       a->link == b->link;
}

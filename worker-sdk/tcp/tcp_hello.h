/* tcp_hello.h: how two ranks that connect prove to each other that both belong
 * to the job and that both mean this connection: a challenge and an answer in
 * both directions, under a key that is never sent.
 *
 * The caller sends the numbers of both ends and a nonce; the listener sends the
 * same from its side, its nonce, and a MAC of everything so far; the caller
 * sends another MAC of everything.
 *
 * The nonces are fresh, so a recording of one connection is useless on another.
 * The signed texts differ in their first byte, so neither MAC passes for the
 * other. The data that follows on the connection is protected only if both ends
 * ask for it (tcp_secure.h). */
#ifndef SDK_TCP_HELLO_H
#define SDK_TCP_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "worker-sdk/core/key.h"

enum { DDP__NONCE = 16, DDP__MAC = 32 };

/* One end of a connection. The other end has from and to exchanged. */
struct ddp__link {
	char magic[8]; /* what the connection is for */
	uint32_t round, from, to;
	uint16_t link, links; /* number of this link, and of links, in the
			       * pair */
	uint32_t secure;      /* tcp_secure.h: what this end can do */
};

/* The state of the exchange on one connection, and nothing more. */
struct ddp__hello {
	struct ddp__link caller, listener;
	unsigned char nonces[2][DDP__NONCE]; /* the caller's first */
	unsigned char in[sizeof(struct ddp__link) + DDP__NONCE + DDP__MAC];
	size_t got; /* bytes of the message that is due */
};

/* These functions take non-blocking sockets. The functions that read return 1
 * when the message is complete and valid, 0 when more has to arrive, -EPIPE
 * when the connection is closed, and -EPROTO when the other side does not
 * belong to this job. After an error the connection cannot be used. */

/* The caller, on a fresh socket, whose buffer has room for the whole call: 0 or
 * -EPIPE. */
int ddp__hello_call(struct ddp__hello *h, int fd, const struct ddp__link *me);
/* The caller: reads the answer and sends its proof. From then on h->listener is
 * true; its number of links may differ from this end's. */
int ddp__hello_answered(struct ddp__hello *h, int fd,
			const unsigned char key[DDP__KEY]);

/* The listener: reads the call. h->caller is only a claim until it is
 * proved. */
int ddp__hello_called(struct ddp__hello *h, int fd);
/* The listener, which expects this caller: 0 or -EPIPE. */
int ddp__hello_answer(struct ddp__hello *h, int fd, const struct ddp__link *me,
		      const unsigned char key[DDP__KEY]);
/* The listener: reads the proof; from then on h->caller is true. */
int ddp__hello_proved(struct ddp__hello *h, int fd,
		      const unsigned char key[DDP__KEY]);

/* After the proof: derives the keys of both directions, the caller's first. */
void ddp__hello_keys(const struct ddp__hello *h,
		     const unsigned char key[DDP__KEY],
		     unsigned char keys[2][DDP__KEY]);

/* 1 if both are ends of one connection: the same use, round and link. */
int ddp__link_fits(const struct ddp__link *a, const struct ddp__link *b);

#endif

/* tcp_hello.h: how two ranks that connect prove to each other that both belong
 * to the job, and that both mean this connection: a challenge and its answer in
 * both directions, under a key that never travels on it.
 *
 *   caller:   who calls whom, and a nonce
 *   listener: the same from its side, its nonce, and a MAC of all of it
 *   caller:   another MAC of all of it
 *
 * The nonces are fresh, so that what was heard on one connection is of no use
 * on another; what is signed differs in its first byte, so that neither MAC
 * passes for the other. What follows on the connection is protected only where
 * both say so (tcp_secure.h). */
#ifndef SDK_TCP_HELLO_H
#define SDK_TCP_HELLO_H

#include <stddef.h>
#include <stdint.h>

#include "worker-sdk/core/key.h"

enum { DDP__NONCE = 16, DDP__MAC = 32 };

/* One end of a connection. The other has from and to the other way round. */
struct ddp__link {
	char magic[8]; /* what the connection is for */
	uint32_t round, from, to;
	uint16_t link, links; /* which of the pair's, of how many */
	uint32_t secure;      /* tcp_secure.h: what this end can do */
};

/* The exchange on one connection; no more than its memory. */
struct ddp__hello {
	struct ddp__link caller, listener;
	unsigned char nonces[2][DDP__NONCE]; /* the caller's first */
	unsigned char in[sizeof(struct ddp__link) + DDP__NONCE + DDP__MAC];
	size_t got; /* of what is due */
};

/* The functions below are called on non-blocking sockets. Those that read
 * return 1 when what is due has come and is right, 0 when it has not come yet,
 * -EPIPE when the connection is closed, and -EPROTO when the other side is not
 * of this job. After an error the connection is of no use. */

/* The caller, on a fresh socket, whose buffer takes it whole: 0 or -EPIPE. */
int ddp__hello_call(struct ddp__hello *h, int fd, const struct ddp__link *me);
/* The caller: reads the answer and proves itself. h->listener is true then; its
 * links may be others than mine. */
int ddp__hello_answered(struct ddp__hello *h, int fd,
			const unsigned char key[DDP__KEY]);

/* The listener: reads the call. h->caller is a claim so far. */
int ddp__hello_called(struct ddp__hello *h, int fd);
/* The listener, who expects such a caller: 0 or -EPIPE. */
int ddp__hello_answer(struct ddp__hello *h, int fd, const struct ddp__link *me,
		      const unsigned char key[DDP__KEY]);
/* The listener: h->caller is true then. */
int ddp__hello_proved(struct ddp__hello *h, int fd,
		      const unsigned char key[DDP__KEY]);

/* After the proof: the keys of what follows, the caller's first. */
void ddp__hello_keys(const struct ddp__hello *h,
		     const unsigned char key[DDP__KEY],
		     unsigned char keys[2][DDP__KEY]);

/* Whether both are ends of one connection: the same use, round and link. */
int ddp__link_fits(const struct ddp__link *a, const struct ddp__link *b);

#endif

/* tcp_secure.h: what ranks of two hosts send each other, in records that only
 * they can read or make ($DDP_ENCRYPT_DATA, the same on all ranks).
 *
 * Both ends make two keys, one for each direction, of the key and the nonces of
 * their hello (tcp_hello.h), so they are of this connection alone. A record is
 * a u32 n, n bytes of text and a tag: AES-256-GCM where both ends have it in
 * hardware, else ChaCha20-Poly1305. The tag covers n; the nonce is the number
 * of the record in its direction, which is not sent.
 *
 * The functions take a socket and its struct ddp__secure, and do with NULL what
 * the system call does: nothing is copied then. With one, no byte beyond the
 * record in hand is ever read from the socket, so poll tells of the next; of
 * the record in hand ddp__secure_has does. What is sent is a record at a time,
 * and of one message: where a message ends a record does. */
#ifndef SDK_TCP_SECURE_H
#define SDK_TCP_SECURE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "worker-sdk/tcp/tcp_hello.h"

enum {
	/* What a rank says in its hello that it can do; 0: it sends in plain */
	DDP__SECURE_CHACHA = 1,
	DDP__SECURE_AES = 2,
	DDP__SECURE_TEXT = 64 << 10 /* of a record, at most: in the cache */
};

struct err;
struct ddp__secure;

/* What $DDP_ENCRYPT_DATA asks for, as a hello says it: 0, or bits. ERR_USAGE.
 */
int ddp__secure_wanted(struct err *e);
/* 1: both encrypt, or none does. */
int ddp__secure_agree(const struct ddp__hello *h);
/* Of the connection that h has proved; is_caller: as the end that called. *out
 * is NULL where neither end encrypts. 0 or -ENOMEM. */
int ddp__secure_new(struct ddp__secure **out, const struct ddp__hello *h,
		    int is_caller, const unsigned char key[DDP__KEY]);
void ddp__secure_free(struct ddp__secure *s);

/* Bytes that the kernel has taken, in whole records, or -1 and errno. After an
 * EAGAIN the next call gives the same bytes again, and may give more. */
ssize_t ddp__secure_send(struct ddp__secure *s, int fd, const struct iovec *iov,
			 int n);
/* A short message, which fits into a record and which nobody misses: dropped
 * where one before it waits for room; what of it does not fit into the socket
 * leaves with the next. */
void ddp__secure_post(struct ddp__secure *s, int fd, const struct iovec *iov,
		      int n);
/* Bytes that have come, 0 at the end, or -1 and errno. EBADMSG: it does not
 * authenticate. */
ssize_t ddp__secure_recv(struct ddp__secure *s, int fd, const struct iovec *iov,
			 int n);
/* Up to size bytes of the record in hand, which stay there. */
ssize_t ddp__secure_peek(struct ddp__secure *s, int fd, void *out, size_t size);
/* A record, or the rest of one, is here that poll does not tell of. */
int ddp__secure_has(const struct ddp__secure *s);
/* Something came that does not authenticate: nothing more is taken. */
int ddp__secure_is_broken(const struct ddp__secure *s);
/* A part of a record has left, and the rest has not. */
int ddp__secure_is_torn(const struct ddp__secure *s);

#endif

/* tcp_secure.h: the data between ranks of two hosts in encrypted records
 * ($DDP_ENCRYPT_DATA, the same on all ranks).
 *
 * Both ends derive two keys, one for each direction, from the key and the
 * nonces of their hello (tcp_hello.h), so the keys belong to this connection
 * alone. A record is a u32 n, n bytes of text and a tag: AES-256-GCM if both
 * ends have it in hardware, else ChaCha20-Poly1305. The tag covers n; the nonce
 * is the number of the record in its direction, which is not sent.
 *
 * The functions take a socket and its struct ddp__secure; with NULL they only
 * make the system call, without copying. Otherwise they read no byte beyond the
 * current record from the socket, so poll reports the next record, and
 * ddp__secure_has the rest of the current one. A record belongs to one message
 * and ends where the message ends. */
#ifndef SDK_TCP_SECURE_H
#define SDK_TCP_SECURE_H

#include <sys/types.h>
#include <sys/uio.h>

#include "worker-sdk/tcp/tcp_hello.h"

enum {
	/* Bits that a rank offers in its hello; 0: it sends plain text */
	DDP__SECURE_CHACHA = 1,
	DDP__SECURE_AES = 2,
	DDP__SECURE_TEXT = 64 << 10 /* text bytes of a record, at most: they
				     * stay in the cache */
};

struct err;
struct ddp__secure;

/* The bits of a hello that $DDP_ENCRYPT_DATA demands, or 0. ERR_USAGE. */
int ddp__secure_wanted(struct err *e);
/* 1: both ends encrypt, or neither does. */
int ddp__secure_agree(const struct ddp__hello *h);
/* The state for a connection that h has proved; is_caller: this end called.
 * *out is NULL if neither end encrypts. 0 or -ENOMEM. */
int ddp__secure_new(struct ddp__secure **out, const struct ddp__hello *h,
		    int is_caller, const unsigned char key[DDP__KEY]);
void ddp__secure_free(struct ddp__secure *s);

/* Returns the bytes that the kernel has taken, in whole records, or -1 and
 * errno. After an EAGAIN the next call has to pass the same bytes again, and
 * may pass more. */
ssize_t ddp__secure_send(struct ddp__secure *s, int fd, const struct iovec *iov,
			 int n);
/* Sends a short message that fits a record and may be lost: it is dropped if an
 * earlier one still waits for room. Bytes that do not fit the socket leave with
 * the next message. */
void ddp__secure_post(struct ddp__secure *s, int fd, const struct iovec *iov,
		      int n);
/* Returns the bytes received, 0 at the end, or -1 and errno. EBADMSG: a record
 * does not authenticate. */
ssize_t ddp__secure_recv(struct ddp__secure *s, int fd, const struct iovec *iov,
			 int n);
/* Copies up to size bytes of the current record without taking them. */
ssize_t ddp__secure_peek(struct ddp__secure *s, int fd, void *out, size_t size);
/* 1 if a record, or the rest of one, is here that poll does not report. */
int ddp__secure_has(const struct ddp__secure *s);
/* 1 if data did not authenticate: nothing more is accepted. */
int ddp__secure_is_broken(const struct ddp__secure *s);
/* 1 if a record was sent only in part. */
int ddp__secure_is_torn(const struct ddp__secure *s);

#endif

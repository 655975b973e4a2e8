/* cipher.h: the bytes of a connection after authentication, as records that
 * only its two ends can read or make.
 *
 * The keys, one for each direction, are derived from the job's key and the
 * whole handshake (proof_stream_keys) with random bytes of both ends. So they
 * belong to this connection alone, and a relay, which has no job key, has
 * neither.
 *
 * A record is a u32 length n, n bytes and a tag (ChaCha20-Poly1305, RFC 8439).
 * The tag also covers the length; the nonce is the record's number in its
 * direction, which is not sent. A record that was changed, repeated, omitted,
 * reordered or reflected does not authenticate, which ends the connection. The
 * end of the stream is not authenticated; the messages in it must tell whether
 * it was complete.
 *
 * Pure: bytes in, bytes out. The owner wipes its copies of keys (cipher_wipe)
 * and uses neither direction after an error. */
#ifndef RENDEZVOUS_CIPHER_H
#define RENDEZVOUS_CIPHER_H

#include "rendezvous/auth/proof.h"

enum {
	CIPHER_TEXT_MAX = 16 << 10, /* one record's, held until its tag is
				     * checked */
	CIPHER_HEADER = 4,
	CIPHER_TAG = 16,
	CIPHER_EXTRA = CIPHER_HEADER + CIPHER_TAG,
	CIPHER_RECORD_MAX = CIPHER_TEXT_MAX + CIPHER_EXTRA,
};

/* The most bytes that n bytes become. */
#define CIPHER_SEALED_MAX(n)                                                  \
	((n) + ((n) / CIPHER_TEXT_MAX + 1) * (size_t)CIPHER_EXTRA)

/* The state of one direction. */
struct cipher_way {
	struct proof key;
	uint64_t count; /* records so far */
};

struct cipher {
	int on; /* 0: not encrypted */
	struct cipher_way in, out;
};

/* Which end of the connection the caller is. */
enum cipher_end { CIPHER_CLIENT, CIPHER_SERVER };

/* Turns c on, with a key for each direction. */
void cipher_start(struct cipher *c, enum cipher_end end,
		  const struct proof *of_client, const struct proof *of_server);
void cipher_wipe(struct cipher *c);

/* Appends text to out as records; sets out->failed if it has no room. */
void cipher_seal(struct cipher_way *w, struct slice text, struct buf *out);

/* The size of the record at the start of in, which may be incomplete; 0: its
 * length has not arrived; ERR_REMOTE: no record has that length. */
MUST_CHECK long cipher_size(const struct cipher_way *w, struct slice in,
			    struct err *e);
/* Decrypts one complete record into to, which has room for its size less
 * CIPHER_EXTRA; to may be the record's own text, at CIPHER_HEADER. ERR_REMOTE,
 * with the record's number: it does not authenticate, and the bytes in to are
 * invalid. */
MUST_CHECK int cipher_open(struct cipher_way *w, struct slice record, char *to,
			   struct err *e);
/* Decrypts all complete records in raw to the end of in. ERR_REMOTE: a record
 * does not authenticate; those before it were moved. */
MUST_CHECK int cipher_take(struct cipher_way *w, struct buf *raw,
			   struct buf *in, struct err *e);

/* ---- between ranks, or nodes, that pass on a list (protocol-records.txt) ----
 *
 * The server has given both the token, of WIRE_TOKEN_SIZE bytes; it is never
 * sent between them. */

enum {
	CIPHER_RELAY_RANDOM = 16,
	CIPHER_RELAY_HELLO = CIPHER_RELAY_RANDOM + PROOF_SIZE,
};

/* Makes the hello with which a rank connects, to be sent once: random bytes and
 * their MAC under the token. 0, or the error of random_bytes(). */
MUST_CHECK int cipher_relay_hello(unsigned char hello[CIPHER_RELAY_HELLO],
				  const char *token, struct err *e);
/* 1: the hello was made with the token. The caller refuses copies of it. */
int cipher_is_relay_hello(const unsigned char hello[CIPHER_RELAY_HELLO],
			  const char *token);
/* Sets w to seal or open the records after a salt of CIPHER_RELAY_RANDOM bytes:
 * the same records for all that connect. */
void cipher_relay_way(struct cipher_way *w, const char *token,
		      const void *salt);

#endif

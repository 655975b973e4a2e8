/* tcp_secure.c: encrypted records on a non-blocking socket, one at a time in
 * each direction. */
#include "worker-sdk/tcp/tcp_secure.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/error.h"
#include "worker-sdk/math/copy.h"

enum {
	HEADER = 4,
	TAG = 16,
	RECORD = HEADER + DDP__SECURE_TEXT + TAG,
	NONCE = 12
};

_Static_assert(TAG == crypto_aead_aes256gcm_ABYTES &&
	       TAG == crypto_aead_chacha20poly1305_ietf_ABYTES &&
	       NONCE == crypto_aead_aes256gcm_NPUBBYTES &&
	       NONCE == crypto_aead_chacha20poly1305_ietf_NPUBBYTES &&
	       DDP__KEY == crypto_aead_aes256gcm_KEYBYTES &&
	       DDP__KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES,
	       "libsodium's sizes");

/* The state of one direction. */
struct way {
	crypto_aead_aes256gcm_state aes;
	unsigned char key[DDP__KEY];
	uint64_t count; /* records so far */
	size_t at;   /* bytes of record sent or received so far */
	size_t size; /* the current record's; 0: none, or not known yet */
	/* Sending: bytes of text in the record. Receiving: decrypted bytes that
	 * are left to take. */
	size_t text;
	unsigned char *record;
};

struct ddp__secure {
	struct way out, in;
	int is_aes;
	int broken; /* invalid bytes arrived */
};

/* ---- set-up ---- */

int ddp__secure_wanted(struct err *e)
{
	const char *text = getenv("DDP_ENCRYPT_DATA");

	if (!text || !*text || !strcmp(text, "0"))
		return 0;
	if (strcmp(text, "1"))
		return err_set(e, ERR_USAGE,
			       "DDP_ENCRYPT_DATA is '%s': give 1 to encrypt "
			       "the data between hosts, or 0",
			       text);
	(void)!sodium_init(); /* if it cannot, it uses the slowest
			       * implementation */
	return DDP__SECURE_CHACHA |
	       (crypto_aead_aes256gcm_is_available() ? DDP__SECURE_AES : 0);
}

int ddp__secure_agree(const struct ddp__hello *h)
{
	return !h->caller.secure == !h->listener.secure;
}

static int way_init(struct way *w, const unsigned char key[DDP__KEY],
		    int is_aes)
{
	memcpy(w->key, key, DDP__KEY);
	if (is_aes)
		crypto_aead_aes256gcm_beforenm(&w->aes, key);
	w->record = malloc(RECORD);
	return w->record ? 0 : -ENOMEM;
}

int ddp__secure_new(struct ddp__secure **out, const struct ddp__hello *h,
		    int is_caller, const unsigned char key[DDP__KEY])
{
	unsigned char keys[2][DDP__KEY];
	struct ddp__secure *s = NULL;
	int rc;

	*out = NULL;
	if (!h->caller.secure)
		return 0;
	/* the AES state must be aligned to 16 bytes */
	if (posix_memalign((void **)&s, 64, sizeof(*s)))
		return -ENOMEM;
	memset(s, 0, sizeof(*s));
	s->is_aes = h->caller.secure & h->listener.secure & DDP__SECURE_AES;
	ddp__hello_keys(h, key, keys);
	rc = way_init(&s->out, keys[!is_caller], s->is_aes) |
	     way_init(&s->in, keys[is_caller], s->is_aes);
	sodium_memzero(keys, sizeof(keys));
	if (rc) {
		ddp__secure_free(s);
		return -ENOMEM;
	}
	*out = s;
	return 0;
}

void ddp__secure_free(struct ddp__secure *s)
{
	if (!s)
		return;
	free(s->out.record);
	free(s->in.record);
	sodium_memzero(s, sizeof(*s));
	free(s);
}

/* ---- records ---- */

static void way_next_nonce(struct way *w, unsigned char nonce[NONCE])
{
	memset(nonce, 0, NONCE);
	memcpy(nonce, &w->count, sizeof(w->count));
	w->count++;
}

static void secure_seal(struct ddp__secure *s, const void *text, uint32_t n)
{
	struct way *w = &s->out;
	unsigned char nonce[NONCE], *to = w->record + HEADER;

	way_next_nonce(w, nonce);
	memcpy(w->record, &n, HEADER);
	if (s->is_aes)
		crypto_aead_aes256gcm_encrypt_afternm(
			to, NULL, text, n, w->record, HEADER, NULL, nonce,
			&w->aes);
	else
		crypto_aead_chacha20poly1305_ietf_encrypt(
			to, NULL, text, n, w->record, HEADER, NULL, nonce,
			w->key);
	w->text = n;
	w->size = HEADER + n + TAG;
	w->at = 0;
}

/* Decrypts the record, which has arrived whole, into to. */
static int secure_open(struct ddp__secure *s, void *to)
{
	struct way *w = &s->in;
	unsigned char nonce[NONCE];
	const unsigned char *from = w->record + HEADER;
	size_t n = w->size - HEADER;
	int rc;

	way_next_nonce(w, nonce);
	rc = s->is_aes ? crypto_aead_aes256gcm_decrypt_afternm(
				 to, NULL, NULL, from, n, w->record, HEADER,
				 nonce, &w->aes)
		       : crypto_aead_chacha20poly1305_ietf_decrypt(
				 to, NULL, NULL, from, n, w->record, HEADER,
				 nonce, w->key);
	s->broken |= rc;
	return rc;
}

/* ---- sending ---- */

/* Sends the rest of the current record. 0: all of it is sent; -1 and errno. */
static int secure_flush(struct way *w, int fd)
{
	while (w->at < w->size) {
		ssize_t n = send(fd, w->record + w->at, w->size - w->at,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return -1;
		w->at += (size_t)n;
	}
	w->size = w->at = 0;
	return 0;
}

/* The text of a record from `skip` on: in place, or gathered where the record
 * will be. Returns its length; 0: there is no more text. */
static size_t secure_gather(struct ddp__secure *s, const struct iovec *iov,
			    int n, size_t skip, const void **text)
{
	unsigned char *to = s->out.record + HEADER;
	size_t have = 0;

	for (int i = 0; i < n && have < DDP__SECURE_TEXT; i++) {
		size_t len = iov[i].iov_len, part;

		if (skip >= len) {
			skip -= len;
			continue;
		}
		part = len - skip;
		if (part > DDP__SECURE_TEXT - have)
			part = DDP__SECURE_TEXT - have;
		*text = (const char *)iov[i].iov_base + skip;
		if (i == n - 1 && !have)
			return part;
		ddp__copy_plain(to + have, *text, part);
		have += part;
		skip = 0;
	}
	*text = to;
	return have;
}

ssize_t ddp__secure_send(struct ddp__secure *s, int fd, const struct iovec *iov,
			 int n)
{
	struct msghdr msg = {.msg_iov = (struct iovec *)iov,
			     .msg_iovlen = (size_t)n};
	size_t done = 0, size;
	const void *text;

	if (!s)
		return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (;;) {
		if (secure_flush(&s->out, fd))
			return done ? (ssize_t)done : -1;
		done += s->out.text;
		s->out.text = 0;
		size = secure_gather(s, iov, n, done, &text);
		if (!size)
			return (ssize_t)done;
		secure_seal(s, text, (uint32_t)size);
	}
}

void ddp__secure_post(struct ddp__secure *s, int fd, const struct iovec *iov,
		      int n)
{
	const void *text;
	size_t size;

	if (!s) {
		(void)!ddp__secure_send(s, fd, iov, n);
		return;
	}
	if (secure_flush(&s->out, fd))
		return; /* drop this message: an earlier one still waits for
			 * room */
	size = secure_gather(s, iov, n, 0, &text);
	secure_seal(s, text, (uint32_t)size);
	s->out.text = 0;
	(void)!secure_flush(&s->out, fd);
}

int ddp__secure_is_torn(const struct ddp__secure *s)
{
	return s && s->out.size > 0;
}

/* ---- receiving ---- */

/* Reads until w->at reaches end: 1; 0: the connection has ended; -1 and
 * errno. */
static int secure_read_to(struct way *w, int fd, size_t end)
{
	while (w->at < end) {
		ssize_t n = recv(fd, w->record + w->at, end - w->at,
				 MSG_DONTWAIT);

		if (n <= 0)
			return (int)n;
		w->at += (size_t)n;
	}
	return 1;
}

/* Reads a whole record: 1; otherwise as secure_read_to. */
static int secure_read_record(struct ddp__secure *s, int fd)
{
	struct way *w = &s->in;
	uint32_t n;
	int rc = secure_read_to(w, fd, HEADER);

	if (rc <= 0)
		return rc;
	memcpy(&n, w->record, HEADER);
	if (!n || n > DDP__SECURE_TEXT) {
		s->broken = 1;
		errno = EBADMSG;
		return -1;
	}
	w->size = HEADER + n + TAG;
	return secure_read_to(w, fd, w->size);
}

/* Makes decrypted text available: 1; otherwise as secure_read_to. */
static int secure_have_text(struct ddp__secure *s, int fd)
{
	struct way *w = &s->in;
	int rc;

	if (w->text)
		return 1;
	rc = secure_read_record(s, fd);
	if (rc <= 0)
		return rc;
	if (secure_open(s, w->record + HEADER)) {
		errno = EBADMSG;
		return -1;
	}
	w->text = w->size - HEADER - TAG;
	return 1;
}

static const unsigned char *secure_text(const struct way *w)
{
	return w->record + w->size - TAG - w->text;
}

static void secure_take(struct way *w, size_t n)
{
	w->text -= n;
	if (!w->text)
		w->at = w->size = 0;
}

static size_t secure_copy_out(struct way *w, const struct iovec *iov, int n)
{
	size_t done = 0;

	for (int i = 0; i < n && w->text; i++) {
		size_t part = iov[i].iov_len < w->text ? iov[i].iov_len
						       : w->text;

		ddp__copy_plain(iov[i].iov_base, secure_text(w), part);
		secure_take(w, part);
		done += part;
	}
	return done;
}

/* Decrypts the next record into its destination, if there is room for all of
 * it. */
static ssize_t secure_recv_straight(struct ddp__secure *s, int fd,
				    const struct iovec *to)
{
	struct way *w = &s->in;
	int rc = secure_read_record(s, fd);
	size_t n;

	if (rc <= 0)
		return rc;
	n = w->size - HEADER - TAG;
	if (n > to->iov_len)
		return secure_have_text(s, fd) < 0
			       ? -1
			       : (ssize_t)secure_copy_out(w, to, 1);
	if (secure_open(s, to->iov_base)) {
		errno = EBADMSG;
		return -1;
	}
	w->at = w->size = 0;
	return (ssize_t)n;
}

ssize_t ddp__secure_recv(struct ddp__secure *s, int fd, const struct iovec *iov,
			 int n)
{
	int rc;

	if (!s)
		return readv(fd, iov, n);
	if (s->broken) {
		errno = EBADMSG;
		return -1;
	}
	if (n == 1 && !s->in.text)
		return secure_recv_straight(s, fd, iov);
	rc = secure_have_text(s, fd);
	return rc <= 0 ? rc : (ssize_t)secure_copy_out(&s->in, iov, n);
}

ssize_t ddp__secure_peek(struct ddp__secure *s, int fd, void *out, size_t size)
{
	int rc;

	if (!s)
		return recv(fd, out, size, MSG_PEEK | MSG_DONTWAIT);
	if (s->broken) {
		errno = EBADMSG;
		return -1;
	}
	rc = secure_have_text(s, fd);
	if (rc <= 0)
		return rc;
	if (size > s->in.text)
		size = s->in.text;
	ddp__copy_plain(out, secure_text(&s->in), size);
	return (ssize_t)size;
}

int ddp__secure_is_broken(const struct ddp__secure *s)
{
	return s && s->broken;
}

int ddp__secure_has(const struct ddp__secure *s)
{
	return s && s->in.text > 0;
}

/* stage_link.c: the hello and the records. */
#include "launcher/stage/stage_link.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"

enum {
	NONCE_SIZE = 16,
	HELLO_SIZE = NONCE_SIZE + PROOF_SIZE,
	HELLO_S = 5,
	CONNECT_MS = 10000,
	SILENCE_MS = 10000, /* then the peer's host is gone */
	READ_BYTES = 256 << 10,
	BUFFER_MAX = 4 << 20,
};

/* KEYED(use, a, b) of docs/protocol-stage.txt */
static void stage_link_derive(struct proof *out, const char *use,
			      const unsigned char *a, const unsigned char *b,
			      const struct proof *token)
{
	crypto_generichash_state h;

	crypto_generichash_init(&h, token->bytes, PROOF_SIZE, PROOF_SIZE);
	crypto_generichash_update(&h, (const unsigned char *)use,
				  strlen(use) + 1);
	crypto_generichash_update(&h, a, NONCE_SIZE);
	if (b)
		crypto_generichash_update(&h, b, NONCE_SIZE);
	crypto_generichash_final(&h, out->bytes, PROOF_SIZE);
}

static void stage_link_set_time(int fd, int seconds)
{
	const struct timeval limit = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static void stage_link_begin(struct stage_link *l, struct cipher_way *listener,
			     struct cipher_way *caller, const unsigned char *r,
			     const unsigned char *s, const struct proof *token)
{
	stage_link_derive(&listener->key, "ddprun stage listener", r, s, token);
	stage_link_derive(&caller->key, "ddprun stage caller", r, s, token);
	listener->count = caller->count = 0;
	buf_init(&l->raw, BUFFER_MAX);
	buf_init(&l->text, BUFFER_MAX);
	buf_init(&l->sealed, BUFFER_MAX);
	l->used = 0;
	stage_link_set_time(l->fd, 0);
	sock_set_silence_limit(l->fd, SILENCE_MS);
}

static int stage_link_fail(const struct stage_link *l, int rc, const char *what,
			   struct err *e)
{
	return err_set(e, rc, "cannot %s %s: %s", what, l->peer, err_name(rc));
}

int stage_link_connect(struct stage_link *l, const struct sock_addr *addr,
		       const struct proof *token, const char *name,
		       struct err *e)
{
	unsigned char hello[HELLO_SIZE], s[NONCE_SIZE];
	struct proof proof;
	int rc;

	snprintf(l->peer, sizeof(l->peer), "%s", name);
	l->fd = sock_connect(addr, CONNECT_MS, e);
	if (l->fd < 0)
		return l->fd;
	stage_link_set_time(l->fd, CONNECT_MS / 1000);
	rc = random_bytes(hello, NONCE_SIZE, e);
	if (rc == 0) {
		stage_link_derive(&proof, "ddprun stage hello", hello, NULL,
				  token);
		memcpy(hello + NONCE_SIZE, proof.bytes, PROOF_SIZE);
		rc = file_write_all(l->fd, hello, sizeof(hello));
		if (rc == 0)
			rc = file_read_all(l->fd, s, sizeof(s));
		if (rc < 0)
			stage_link_fail(l, rc, "greet", e);
	}
	if (rc < 0) {
		close(l->fd);
		l->fd = -1;
		return rc;
	}
	stage_link_begin(l, &l->in, &l->out, hello, s, token);
	return 0;
}

/* 0, or -1: the peer is not a node of this job. */
static int stage_link_greet(struct stage_link *l, const struct proof *token)
{
	unsigned char hello[HELLO_SIZE], s[NONCE_SIZE];
	struct proof proof;

	stage_link_set_time(l->fd, HELLO_S);
	if (file_read_all(l->fd, hello, sizeof(hello)) < 0)
		return -1;
	stage_link_derive(&proof, "ddprun stage hello", hello, NULL, token);
	if (!proof_same(&proof, SLICE((const char *)hello + NONCE_SIZE,
				      PROOF_SIZE)) ||
	    random_bytes(s, sizeof(s), NULL) < 0 ||
	    file_write_all(l->fd, s, sizeof(s)) < 0)
		return -1;
	stage_link_begin(l, &l->out, &l->in, hello, s, token);
	return 0;
}

int stage_link_accept(struct stage_link *l, int listener,
		      const struct proof *token, struct err *e)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	struct sock_addr from;

	for (;;) {
		from.len = sizeof(from.ss);
		l->fd = accept4(listener, (struct sockaddr *)&from.ss,
				&from.len, SOCK_CLOEXEC);
		if (l->fd < 0 && errno == EAGAIN)
			poll(&p, 1, -1);
		else if (l->fd < 0 && errno != EINTR && errno != ECONNABORTED)
			return err_set(e, -errno, "cannot accept a node's "
				       "connection: %s", strerror(errno));
		if (l->fd < 0)
			continue;
		sock_addr_text(&from, l->peer);
		if (stage_link_greet(l, token) == 0)
			return 0;
		close(l->fd);
		l->fd = -1;
	}
}

void stage_link_close(struct stage_link *l)
{
	if (l->fd < 0)
		return;
	close(l->fd);
	l->fd = -1;
	buf_release(&l->raw);
	buf_release(&l->text);
	buf_release(&l->sealed);
	proof_wipe(&l->in.key, sizeof(l->in.key));
	proof_wipe(&l->out.key, sizeof(l->out.key));
}

int stage_link_send(struct stage_link *l, const void *data, size_t n,
		    struct err *e)
{
	int rc;

	for (size_t at = 0; at < n;) {
		size_t part = n - at < READ_BYTES ? n - at : READ_BYTES;

		buf_reset(&l->sealed);
		cipher_seal(&l->out, SLICE((const char *)data + at, part),
			    &l->sealed);
		rc = l->sealed.failed ? l->sealed.failed
				      : file_write_all(l->fd, l->sealed.data,
						       l->sealed.len);
		if (rc < 0)
			return stage_link_fail(l, rc, "send to", e);
		at += part;
	}
	return 0;
}

static int stage_link_closed(const struct stage_link *l, struct err *e)
{
	return err_set(e, ERR_REMOTE, "%s has closed the connection", l->peer);
}

/* Adds what is there to text, which is empty. */
static int stage_link_read(struct stage_link *l, struct err *e)
{
	char *to = buf_reserve(&l->raw, READ_BYTES);
	ssize_t n;

	if (!to)
		return err_no_memory(e, "data from %s", l->peer);
	do {
		n = read(l->fd, to, READ_BYTES);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return stage_link_fail(l, -errno, "receive from", e);
	if (n == 0)
		return stage_link_closed(l, e);
	l->raw.len += (size_t)n;
	return cipher_take(&l->in, &l->raw, &l->text, e);
}

int stage_link_receive(struct stage_link *l, void *to, size_t n, struct err *e)
{
	char *out = to;

	while (n) {
		size_t part = l->text.len - l->used;

		if (!part) {
			int rc;

			buf_reset(&l->text);
			l->used = 0;
			rc = stage_link_read(l, e);
			if (rc < 0)
				return rc;
			continue;
		}
		if (part > n)
			part = n;
		memcpy(out, l->text.data + l->used, part);
		l->used += part;
		out += part;
		n -= part;
	}
	return 0;
}

int stage_link_send_frames(struct stage_link *l, const void *frames, size_t n,
			   struct err *e)
{
	int rc = file_write_all(l->fd, frames, n);

	return rc < 0 ? stage_link_fail(l, rc, "send to", e) : 0;
}

long stage_link_receive_frames(struct stage_link *l, void *to, size_t room,
			       struct err *e)
{
	ssize_t n;

	/* records and frames do not arrive together */
	if (l->raw.len || l->used < l->text.len)
		return err_set(e, ERR_PROTOCOL, "%s sent more than it was "
			       "asked for", l->peer);
	do {
		n = read(l->fd, to, room);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return stage_link_fail(l, -errno, "receive from", e);
	if (n == 0)
		return stage_link_closed(l, e);
	return n;
}

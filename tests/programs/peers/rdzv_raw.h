/* rdzv_raw.h: the socket of a client without libddp, up to its WELCOME. */
#ifndef TESTS_PEERS_RDZV_RAW_H
#define TESTS_PEERS_RDZV_RAW_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/sock.h"
#include "rendezvous/auth/client_handshake.h"
#include "rendezvous/client/client.h"

static int die(const struct err *e)
{
	printf("error: %s\n", e->text);
	fflush(stdout);
	return 1;
}

static struct auth choose_auth(void)
{
	const char *key = getenv("DDP_JOB_KEY");
	struct err e = ERR_INIT;
	struct auth a;
	int rc = key ? auth_of_key(&a, key, &e)
		     : auth_choose(&a, NULL, NULL, &e);

	if (rc < 0)
		exit(die(&e));
	return a;
}

/* A socket after its WELCOME, by its number. */
static struct raw_line {
	struct cipher cipher;
	struct buf records; /* received; the last record is incomplete */
} raw_lines[16384];

static void raw_begin(int fd)
{
	buf_release(&raw_lines[fd].records);
	raw_lines[fd] = (struct raw_line){.records = BUF_INIT(1 << 20)};
}

static inline int raw_connect(const char *where)
{
	struct err e = ERR_INIT;
	struct sock_addr addr;
	struct endpoint ep;
	int rc = endpoint_parse(&ep, where, 0, &e);

	if (rc == 0)
		rc = sock_resolve(&ep, &addr, 1, &e);
	if (rc >= 0)
		rc = sock_connect(&addr, 5000, &e);
	if (rc < 0)
		exit(die(&e));
	raw_begin(rc);
	return rc;
}

static void raw_send_bytes(int fd, const struct buf *b)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < b->len) {
		n = send(fd, b->data + sent, b->len - sent, MSG_NOSIGNAL);
		if (n < 0)
			break;
		sent += (size_t)n;
	}
}

static void raw_send(int fd, struct buf *b)
{
	struct buf sealed = BUF_INIT(CIPHER_SEALED_MAX(b->len));

	if (raw_lines[fd].cipher.on) {
		cipher_seal(&raw_lines[fd].cipher.out, SLICE(b->data, b->len),
			    &sealed);
		raw_send_bytes(fd, &sealed);
	} else {
		raw_send_bytes(fd, b);
	}
	buf_release(&sealed);
	buf_reset(b);
}

static void raw_open(int fd, struct buf *in)
{
	struct raw_line *l = &raw_lines[fd];
	struct err e = ERR_INIT;

	if (cipher_take(&l->cipher.in, &l->records, in, &e) < 0)
		exit(die(&e));
}

/* Reads what has arrived; its text is in `in`. 0: the connection is closed. */
static int raw_read(int fd, struct buf *in)
{
	struct raw_line *l = &raw_lines[fd];
	struct buf *b = l->cipher.on ? &l->records : in;
	char *to = buf_reserve(b, 65536);
	ssize_t n = recv(fd, to, b->cap - b->len, 0);

	if (n <= 0)
		return 0;
	b->len += (size_t)n;
	if (l->cipher.on)
		raw_open(fd, in);
	return 1;
}

static void raw_receive(int fd, struct buf *in)
{
	if (raw_read(fd, in))
		return;
	printf("closed\n");
	fflush(stdout);
	exit(1);
}

/* From here on all bytes are records, including those that have arrived. */
static void raw_begin_records(int fd, const struct handshake *h, struct buf *in)
{
	struct raw_line *l = &raw_lines[fd];

	if (!h->cipher.on)
		return;
	l->cipher = h->cipher;
	buf_put(&l->records, in->data, in->len);
	buf_reset(in);
	raw_open(fd, in);
}

/* From the preface to the WELCOME; what follows it stays in `in`. 0, or the
 * code of the refusal, with its text. */
static int raw_try(int fd, const struct wire_hello *hello, struct buf *in,
		   struct buf *text)
{
	const struct auth auth = choose_auth();
	struct buf out = BUF_INIT(1 << 16);
	struct wire_frame f, refusal;
	struct err e = ERR_INIT;
	struct wire_error why;
	struct handshake h;
	long n;

	buf_put(&out, wire_preface, WIRE_PREFACE_SIZE);
	raw_send(fd, &out);
	n = handshake_init(&h, &auth, hello, &e);
	while (n == 0) {
		raw_receive(fd, in);
		n = handshake_greeted(&h, SLICE(in->data, in->len), &out, &e);
	}
	if (n < 0)
		exit(die(&e));
	buf_consume(in, (size_t)n);
	raw_send(fd, &out);
	while ((n = wire_cut(SLICE(in->data, in->len), WIRE_WELCOME_MAX, &f,
			     &e)) == 0)
		raw_receive(fd, in);
	if (n < 0)
		exit(die(&e));
	switch (handshake_welcomed(&h, &f, &refusal, &e)) {
	case 1:
		break;
	case 0:
		if (wire_get_error(&refusal, &why, &e) < 0)
			exit(die(&e));
		buf_put(text, why.text.data, why.text.len);
		buf_consume(in, (size_t)n);
		handshake_release(&h);
		buf_release(&out);
		return why.code;
	default:
		exit(die(&e));
	}
	buf_consume(in, (size_t)n);
	raw_begin_records(fd, &h, in);
	handshake_release(&h);
	buf_release(&out);
	return 0;
}

static inline void raw_prove(int fd, const struct wire_hello *hello,
			     struct buf *in)
{
	struct buf why = BUF_INIT(1 << 16);

	if (raw_try(fd, hello, in, &why) == 0)
		return;
	printf("error: %.*s\n", (int)why.len, why.data);
	exit(1);
}

#endif

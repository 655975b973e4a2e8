/* rdzv_raw.h: a client's socket up to its WELCOME, for rdzv_client.c. */
#ifndef TESTS_PROGRAMS_RDZV_RAW_H
#define TESTS_PROGRAMS_RDZV_RAW_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/sock.h"
#include "rendezvous/client.h"
#include "rendezvous/handshake.h"

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

static int raw_connect(const char *where)
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
	return rc;
}

static void raw_send(int fd, struct buf *b)
{
	size_t sent = 0;
	ssize_t n;

	while (sent < b->len) {
		n = send(fd, b->data + sent, b->len - sent, MSG_NOSIGNAL);
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	buf_reset(b);
}

static void raw_receive(int fd, struct buf *in)
{
	char *to = buf_reserve(in, 65536);
	ssize_t n = recv(fd, to, in->cap - in->len, 0);

	if (n <= 0) {
		printf("closed\n");
		fflush(stdout);
		exit(1);
	}
	in->len += (size_t)n;
}

/* From the preface to the WELCOME; what came after it stays in `in`. 0, or the
 * code by which it is not taken, which the text says why. */
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

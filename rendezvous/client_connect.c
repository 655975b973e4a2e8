/* client_connect.c: from an endpoint to a server that is believed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rendezvous/client_inside.h"
#include "rendezvous/handshake.h"

enum { ADDRS_MAX = 8 };

static int left_ms(uint64_t deadline)
{
	uint64_t now = clock_ms();

	if (deadline == UINT64_MAX)
		return -1;
	return deadline > now ? (int)(deadline - now) : 0;
}

static int connect_any(struct client *c, const struct endpoint *ep,
		       uint64_t deadline, struct err *e)
{
	struct sock_addr addrs[ADDRS_MAX];
	int on = 1, i, n = sock_resolve(ep, addrs, ADDRS_MAX, e);

	if (n < 0)
		return n;
	for (i = 0; i < n && c->fd < 0; i++)
		c->fd = sock_connect(&addrs[i], left_ms(deadline), e);
	if (c->fd < 0)
		return c->fd;
	/* A host that vanishes says nothing: only the kernel's probes tell */
	setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	return 0;
}

static int take_greeting(struct client *c, struct handshake *h,
			 uint64_t deadline, struct err *e)
{
	struct err why = ERR_INIT;
	long n;
	int rc;

	do {
		rc = client_receive(c, deadline, e);
		if (rc == ERR_REMOTE) {
			c->dead.code = 0;
			return client_die(c, ERR_PROTOCOL,
				   "it closed the connection without a "
				   "greeting; is it a ddprdzv of our version?",
				   e);
		}
		if (rc < 0)
			return rc;
		n = handshake_greeted(h, SLICE(c->in.data, c->in.len),
				      &c->out, &why);
		if (n < 0)
			return client_die(c, (int)n, why.text, e);
	} while (n == 0);
	c->used = (size_t)n;
	return 0;
}

static int take_welcome(struct client *c, struct handshake *h,
			uint64_t deadline, struct err *e)
{
	struct err why = ERR_INIT;
	struct wire_frame f, refusal;
	struct wire_error m;
	int rc = client_frame(c, &f, WIRE_WELCOME_MAX, deadline, e);

	if (rc == ERR_REMOTE || rc == -ECONNRESET) {
		h->unanswered = 1;
		c->dead.code = 0;
		handshake_explain(h, why.text, sizeof why.text);
		return client_die(c, ERR_PROOF, why.text, e);
	}
	if (rc < 0)
		return rc;
	rc = handshake_welcomed(h, &f, &refusal, &why);
	if (rc < 0)
		return client_die(c, rc, why.text, e);
	if (rc > 0)
		return 0;
	if (wire_get_error(&refusal, &m, NULL) < 0 || m.code >= 0)
		return client_die(c, ERR_PROTOCOL, "its reply is none", e);
	return err_set(e, m.code, "%.*s", SLICE_FMT(m.text));
}

static int greet(struct client *c, struct handshake *h, uint64_t deadline,
		 struct err *e)
{
	int rc;

	buf_put(&c->out, wire_preface, WIRE_PREFACE_SIZE);
	rc = client_send(c, deadline, e);
	buf_reset(&c->out);
	if (rc == 0)
		rc = take_greeting(c, h, deadline, e);
	if (rc == 0)
		rc = client_send(c, deadline, e);
	return rc ? rc : take_welcome(c, h, deadline, e);
}

static int connect_once(struct client **out, const struct endpoint *ep,
			struct handshake *h, uint64_t deadline, struct err *e)
{
	struct client *c = calloc(1, sizeof *c);
	int rc;

	if (!c)
		return err_set(e, -ENOMEM, "out of memory");
	c->fd = -1;
	c->id = 2; /* HELLO's was 1 */
	endpoint_text(ep, c->at);
	buf_init(&c->in, WIRE_HEADER_SIZE + WIRE_BODY_MAX + CLIENT_READ);
	buf_init(&c->out, WIRE_HEADER_SIZE + WIRE_BODY_MAX);
	rc = connect_any(c, ep, deadline, e);
	if (rc == 0)
		rc = greet(c, h, deadline, e);
	if (rc < 0)
		client_free(c);
	else
		*out = c;
	return rc;
}

int client_connect(struct client **out, const struct endpoint *ep,
		   const struct wire_hello *hello, const struct auth *auth,
		   int timeout_ms, struct err *e)
{
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX :
			    clock_ms() + (uint64_t)timeout_ms;
	struct handshake h;
	int unanswered, tries = 2, rc;

	/* a server that dies closes, too: the next one may be there */
	do {
		rc = handshake_init(&h, auth, hello, e);
		if (rc == 0)
			rc = connect_once(out, ep, &h, deadline, e);
		unanswered = h.unanswered;
		handshake_release(&h);
	} while (rc < 0 && unanswered && --tries);
	return rc;
}

/* client_connect.c: connects to the server at an endpoint, authenticates both
 * sides, and follows a referral to the job's leader. */
#include <errno.h>
#include <poll.h>

#include "base/clock.h"
#include "rendezvous/auth/client_handshake.h"
#include "rendezvous/client/client_io.h"

enum {
	ADDRS_MAX = 8,
	AWAY_MS = 1500,      /* to connect to the leader named by a referral */
	AWAY_SILENT_MS = 10000,
	AWAY_NAP_MS = 20,
	TRIES_MAX = 5, /* if the server closes before its greeting */
};

static int client_connect_left_ms(uint64_t deadline)
{
	uint64_t now = clock_ms();

	if (deadline == UINT64_MAX)
		return -1;
	return deadline > now ? (int)(deadline - now) : 0;
}

static uint64_t client_min_timeout(uint64_t deadline, uint64_t ms)
{
	uint64_t at = clock_ms() + ms;

	return at < deadline ? at : deadline;
}

static int client_connect_any(struct client *c, const struct endpoint *to,
			      uint64_t deadline, struct err *e)
{
	struct sock_addr addrs[ADDRS_MAX];
	int on = 1, i, n = sock_resolve(to, addrs, ADDRS_MAX, e);

	if (n < 0)
		return n;
	/* the leader's host may be gone, and another take over soon */
	if (to != &c->endpoint)
		deadline = client_min_timeout(deadline, AWAY_MS);
	for (i = 0; i < n && c->fd < 0; i++)
		c->fd = sock_connect(&addrs[i],
				     client_connect_left_ms(deadline), e);
	if (c->fd < 0)
		return c->fd;
	if (to != &c->endpoint) {
		sock_set_silence_limit(c->fd, AWAY_SILENT_MS);
		return 0;
	}
	/* only the kernel's probes detect a host that vanished */
	setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	return 0;
}

/* Fails; if the server has another version, first sends our preface, so that it
 * can log us. */
static int client_cannot_answer(struct client *c, const struct handshake *h,
				struct buf *out, int code,
				const struct err *why, struct err *e)
{
	int rc = client_die(c, code, why->text, e);

	if (h->other_version && out->len)
		client_send(c, out, clock_ms(), NULL);
	return rc;
}

/* Puts HELLO into out. */
static int client_read_greeting(struct client *c, struct handshake *h,
				struct buf *out, uint64_t deadline,
				struct err *e)
{
	struct err why = ERR_INIT;
	long n;
	int rc;

	do {
		rc = client_receive(c, deadline, e);
		c->unanswered = rc == ERR_REMOTE || rc == -ECONNRESET;
		/* a reset, as it has not read our preface */
		if (c->unanswered) {
			c->dead.code = 0;
			return client_die(
				c, ERR_PROTOCOL,
				"it closed the connection without a greeting; "
				"is it a ddprdzv of this version?",
				e);
		}
		if (rc < 0)
			return rc;
		n = handshake_greeted(h, SLICE(c->in.data, c->in.len),
				      out, &why);
		if (n < 0)
			return client_cannot_answer(c, h, out, (int)n, &why, e);
	} while (n == 0);
	c->used = (size_t)n;
	return 0;
}

static int client_read_welcome(struct client *c, struct handshake *h,
			       struct endpoint *there, uint64_t deadline,
			       struct err *e)
{
	struct err why = ERR_INIT;
	struct wire_frame f, refusal;
	struct wire_error m;
	int rc = client_frame(c, &f, WIRE_WELCOME_MAX, deadline, e);

	if (rc == ERR_REMOTE || rc == -ECONNRESET) {
		c->unanswered = 1;
		c->dead.code = 0;
		handshake_explain(h, why.text, sizeof(why.text));
		return client_die(c, ERR_PROOF, why.text, e);
	}
	if (rc < 0)
		return rc;
	rc = handshake_welcomed(h, &f, &refusal, &why);
	if (rc < 0)
		return client_die(c, rc, why.text, e);
	if (rc > 0)
		return h->cipher.on ? client_encrypt(c, &h->cipher, e) : 0;
	rc = handshake_elsewhere(&refusal, there, e);
	if (rc < 0)
		return rc;
	if (wire_get_error(&refusal, &m, NULL) < 0 || m.code >= 0)
		return client_die(c, ERR_PROTOCOL, "its reply is malformed", e);
	return err_set(e, m.code, "%.*s", SLICE_FMT(m.text));
}

/* A server of this very job that does not have our secret means that the user
 * gave a wrong one. Not if the job's starter passed us the secret: a former
 * server of the same job name may still listen there. */
static int client_is_wrong_secret(int rc, const struct handshake *h)
{
	return rc == ERR_PROOF && h->ours && !h->auth->handed;
}

static int client_greet(struct client *c, struct handshake *h, struct buf *out,
			struct endpoint *there, uint64_t deadline,
			struct err *e)
{
	int rc;

	/* at once: a server whose port is also that of PyTorch's store waits
	 * for it, and a foreign server's reply says more than silence */
	buf_put(out, wire_preface, WIRE_PREFACE_SIZE);
	rc = client_send(c, out, deadline, e);
	buf_reset(out);
	if (rc == 0)
		rc = client_read_greeting(c, h, out, deadline, e);
	if (rc == 0)
		rc = client_send(c, out, deadline, e);
	return rc ? rc : client_read_welcome(c, h, there, deadline, e);
}

/* On ERR_MOVED, there is the leader's address. */
static int client_open_once(struct client *c, const struct endpoint *to,
			    struct endpoint *there, uint64_t deadline,
			    struct err *e)
{
	struct buf out = BUF_INIT(WIRE_PREFACE_SIZE + WIRE_HEADER_SIZE +
				  WIRE_HELLO_MAX);
	struct handshake h;
	int rc = handshake_init(&h, &c->auth, &c->hello, e);

	endpoint_text(to, c->at);
	if (rc == 0)
		rc = client_connect_any(c, to, deadline, e);
	if (rc == 0)
		rc = client_greet(c, &h, &out, there, deadline, e);
	if (client_is_wrong_secret(rc, &h))
		rc = c->dead.code = ERR_USAGE;
	if (e && rc < 0)
		e->code = rc;
	handshake_release(&h);
	buf_release(&out);
	return rc;
}

static int client_open_at(struct client *c, const struct endpoint *to,
			  struct endpoint *there, uint64_t deadline,
			  struct err *e)
{
	int rc = client_open_once(c, to, there, deadline, e);

	/* A dying server closes as well, and its successor may be there. Until
	 * its port is closed as well, it may take more connections. */
	for (int i = 1; rc < 0 && c->unanswered && i < TRIES_MAX; i++) {
		if (i > 1 && rc != ERR_PROTOCOL)
			break;
		if (i > 1)
			poll(NULL, 0, AWAY_NAP_MS);
		client_start_anew(c);
		rc = client_open_once(c, to, there, deadline, e);
	}
	return rc;
}

/* The leader named by the referral is gone, or no longer leads. */
static int client_may_retry_connect(const struct client *c, int rc)
{
	return rc == ERR_MOVED || rc == -ECONNREFUSED || rc == -ETIMEDOUT ||
	       rc == -EHOSTUNREACH || rc == -ENETUNREACH ||
	       rc == -ECONNRESET || rc == -EPIPE || rc == ERR_REMOTE ||
	       rc == ERR_TIMEOUT || c->unanswered;
}

static int client_is_waiting(int rc)
{
	return rc == ERR_NOT_YET || rc == ERR_NO_ETCD;
}

int client_open(struct client *c, uint64_t deadline, struct err *e)
{
	struct endpoint there;
	int rc;

	for (;;) {
		rc = client_open_at(c, &c->endpoint, &there, deadline, e);
		if (rc == ERR_MOVED) {
			struct endpoint to = there;

			client_start_anew(c);
			rc = client_open_at(
				c, &to, &there,
				client_min_timeout(deadline, AWAY_SILENT_MS),
				e);
			if (rc >= 0 || (!client_may_retry_connect(c, rc) &&
					!client_is_waiting(rc)))
				return rc;
		} else if (!client_is_waiting(rc)) {
			return rc;
		}
		if (clock_ms() + AWAY_NAP_MS >= deadline)
			return rc;
		poll(NULL, 0, AWAY_NAP_MS);
		client_start_anew(c);
	}
}

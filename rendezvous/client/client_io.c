/* client_io.c: sends and receives bytes with a deadline, and reconnects. Blocks
 * only in poll(2). A connection whose failure cannot be repaired stays failed,
 * with that text. */
#include "rendezvous/client/client_io.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "rendezvous/client/client.h"

enum {
	KEEP_MAX = 256 << 10, /* larger buffers are freed after a reply */
	ADDRS_MAX = 8,
	BACKOFF_MIN_MS = 5,
	BACKOFF_MAX_MS = 500,
	ALLOWANCE_MS = 10000, /* for a reply, beyond the server's timeout */
	WAITING_MS = 30000, /* the longest time between two WAITINGs */
	TRY_MS = 3000, /* one attempt, after again_ms has passed */
};

int client_die(struct client *c, int code, const char *what, struct err *e)
{
	if (!c->dead.code)
		err_set(&c->dead, code, "rendezvous server %s: %s%s", c->at,
			what, c->waits);
	return err_set(e, c->dead.code, "%s", c->dead.text);
}

static int client_die_errno(struct client *c, int error, struct err *e)
{
	char what[128];

	snprintf(what, sizeof(what), "the connection broke (%s)",
		 strerror(error));
	return client_die(c, -error, what, e);
}

/* ---- bytes ---- */

/* deadline in clock_ms, UINT64_MAX: none. */
static int client_left_ms(uint64_t deadline)
{
	uint64_t now = clock_ms();
	uint64_t left = deadline > now ? deadline - now : 0;

	return deadline == UINT64_MAX ? -1 :
	       left > 1 << 30 ? 1 << 30 : (int)left;
}

static int client_wait_for(struct client *c, short events, uint64_t deadline,
			   struct err *e)
{
	struct pollfd p = {c->fd, events, 0};
	int rc;

	for (;;) {
		rc = poll(&p, 1, client_left_ms(deadline));
		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return client_die_errno(c, errno, e);
		if (rc == 0 && deadline <= clock_ms())
			return client_die(c, ERR_TIMEOUT,
					  "no answer in time; is the server or "
					  "the network down?",
					  e);
	}
}

/* Decrypts the complete records. */
static int client_open_records(struct client *c, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = cipher_take(&c->cipher.in, &c->raw, &c->in, &why);

	return rc < 0 ? client_die(c, rc, why.text, e) : 1;
}

int client_encrypt(struct client *c, const struct cipher *keys, struct err *e)
{
	int rc;

	c->cipher = *keys;
	buf_put(&c->raw, c->in.data + c->used, c->in.len - c->used);
	c->in.len = c->used;
	if (c->raw.failed)
		return client_die(c, c->raw.failed, "out of memory", e);
	rc = client_open_records(c, e);
	return rc < 0 ? rc : 0;
}

int client_receive(struct client *c, uint64_t deadline, struct err *e)
{
	struct buf *in = c->cipher.on ? &c->raw : &c->in;
	char *to = buf_reserve(in, c->cipher.on ? CLIENT_READ_RAW
						: CLIENT_READ);
	ssize_t n;
	int rc;

	if (!to)
		return client_die(c, in->failed, "out of memory", e);
	for (;;) {
		n = recv(c->fd, to, in->cap - in->len, MSG_DONTWAIT);
		if (n > 0) {
			in->len += (size_t)n;
			return c->cipher.on ? client_open_records(c, e) : 1;
		}
		if (n == 0)
			return client_die(c, ERR_REMOTE,
					  "it closed the connection", e);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return client_die_errno(c, errno, e);
		rc = client_wait_for(c, POLLIN, deadline, e);
		if (rc < 0)
			return rc;
	}
}

int client_frame(struct client *c, struct wire_frame *f, uint32_t body_max,
		 uint64_t deadline, struct err *e)
{
	struct err why = ERR_INIT;
	long n;
	int rc;

	buf_consume(&c->in, c->used);
	c->used = 0;
	if (c->in.len == 0 && c->in.cap > KEEP_MAX)
		buf_release(&c->in);
	if (c->sealed.cap > KEEP_MAX)
		buf_release(&c->sealed);
	for (;;) {
		n = wire_cut(SLICE(c->in.data, c->in.len), body_max, f, &why);
		if (n < 0)
			return client_die(c, ERR_PROTOCOL, why.text, e);
		if (n > 0)
			break;
		rc = client_receive(c, deadline, e);
		if (rc < 0)
			return rc;
	}
	c->used = (size_t)n;
	return 0;
}

/* Only after authentication: an error with id 0 is the server's last message,
 * and becomes ours unchanged. */
static int client_next_frame(struct client *c, struct wire_frame *f,
			     uint64_t deadline, struct err *e)
{
	struct wire_error m;
	int rc = client_frame(c, f, WIRE_BODY_MAX, deadline, e);

	if (rc < 0 || f->kind != WIRE_ERROR_REPLY || f->id != 0)
		return rc;
	if (wire_get_error(f, &m, NULL) < 0)
		return client_die(c, ERR_PROTOCOL, "it sent a malformed error",
				  e);
	c->was_refused = 1;
	err_set(&c->dead, m.code < 0 ? m.code : ERR_PROTOCOL, "%.*s",
		SLICE_FMT(m.text));
	return err_set(e, c->dead.code, "%s", c->dead.text);
}

/* Writing failed. The server may have sent the reason before, so reads its last
 * message before it reports errno. */
static int client_read_last_error(struct client *c, int error, struct err *e)
{
	enum { PATIENCE_MS = 100 };
	struct wire_frame f;
	int rc;

	do
		rc = client_next_frame(c, &f, clock_ms() + PATIENCE_MS, e);
	while (rc == 0);
	if (c->was_refused)
		return rc;
	c->dead.code = 0;
	return client_die_errno(c, error, e);
}

/* With keys, encrypts b into records. A repeated request is encrypted again,
 * because each connection has its own keys. */
static const struct buf *client_encrypt_output(struct client *c,
					       const struct buf *b)
{
	if (!c->cipher.on || b->failed)
		return b;
	buf_reset(&c->sealed);
	cipher_seal(&c->cipher.out, SLICE(b->data, b->len), &c->sealed);
	return &c->sealed;
}

int client_send(struct client *c, const struct buf *text, uint64_t deadline,
		struct err *e)
{
	const struct buf *b = client_encrypt_output(c, text);
	size_t sent = 0;
	ssize_t n;
	int rc;

	if (b->failed == -ENOMEM)
		return err_no_memory(e, "the connection to the server");
	if (b->failed)
		return err_set(e, ERR_ARGUMENT,
			       "the request has more than %d bytes",
			       WIRE_BODY_MAX);
	while (sent < b->len) {
		n = send(c->fd, b->data + sent, b->len - sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			sent += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return client_read_last_error(c, errno, e);
		rc = client_wait_for(c, POLLOUT, deadline, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- replies ---- */

/* A FATE may take longer than its timeout: extends the deadline while the
 * server reports that it waits, which it does each time that the wait has
 * doubled. */
static void client_extend_deadline(const struct client *c, uint64_t waited_ms,
				   uint64_t *deadline)
{
	uint64_t now = clock_ms(), next;

	if (!c->timeout_end || c->timeout_end > now)
		return;
	next = waited_ms < WAITING_MS ? waited_ms : WAITING_MS;
	if (*deadline < now + next + ALLOWANCE_MS)
		*deadline = now + next + ALLOWANCE_MS;
}

/* Remembers what the request waits for, in case no reply comes. */
static void client_handle_waiting(struct client *c, const struct wire_frame *f,
				  uint32_t id, uint64_t *deadline)
{
	struct wire_waiting m;

	if (wire_get_waiting(f, &m, NULL) < 0 || m.request != id)
		return;
	snprintf(c->waits, sizeof(c->waits),
		 "; this call waited %llu s for %.*s",
		 (unsigned long long)(m.waited_ms + 500) / 1000,
		 SLICE_FMT(m.text));
	client_extend_deadline(c, m.waited_ms, deadline);
}

static int client_await_reply(struct client *c, struct wire_frame *f,
			      uint32_t id, uint64_t deadline, struct err *e)
{
	struct wire_error m;
	int rc;

	do {
		rc = client_next_frame(c, f, deadline, e);
		if (rc == 0 && f->type == WIRE_WAITING)
			client_handle_waiting(c, f, id, &deadline);
	/* skip replies to requests that were given up */
	} while (rc == 0 && f->id != id);
	if (rc < 0 || f->kind == WIRE_REPLY)
		return rc;
	if (f->kind != WIRE_ERROR_REPLY || wire_get_error(f, &m, NULL) < 0)
		return client_die(c, ERR_PROTOCOL, "its reply is malformed", e);
	if (m.code >= 0)
		m.code = ERR_PROTOCOL;
	return err_set(e, m.code, "%.*s", SLICE_FMT(m.text));
}

/* ---- reconnecting ---- */

/* Retries only after a loss without a reason from the server. */
static int client_may_retry(const struct client *c)
{
	return c->again_ms && c->dead.code && !c->was_refused &&
	       c->dead.code != ERR_PROTOCOL && c->dead.code != ERR_TIMEOUT &&
	       c->pid == getpid();
}

void client_start_anew(struct client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	buf_reset(&c->in);
	buf_reset(&c->raw);
	cipher_wipe(&c->cipher);
	c->used = 0;
	c->was_refused = c->unanswered = 0;
	c->dead = (struct err)ERR_INIT;
}

static void client_backoff(uint64_t ms, uint64_t end)
{
	uint64_t now = clock_ms();

	if (now + ms > end)
		ms = end > now ? end - now : 0;
	poll(NULL, 0, (int)ms);
}

/* The server refused explicitly: retrying does not help. */
static int client_is_refusal(const struct client *c, int rc)
{
	if (c->unanswered) /* a dying server may have closed us unaccepted */
		return 0;
	return c->was_refused || rc == ERR_PROTOCOL || rc == ERR_PROOF ||
	       rc == ERR_ABORTED || rc == ERR_REFUSED ||
	       rc == ERR_ARGUMENT || rc == ERR_USAGE;
}

/* Each new connection broke before a reply came. */
static int client_fail_retry(struct client *c, struct err *e)
{
	struct err last = c->dead;

	err_set(&c->dead, ERR_REMOTE,
		"%.450s; and each connection since then broke before it "
		"answered: %.450s",
		c->lost.text, last.text);
	return err_set(e, c->dead.code, "%s", c->dead.text);
}

/* again_ms counts from the loss and covers all attempts until a server replies
 * again. `opened` connections were made for this call. A call after that time
 * makes one attempt. */
static int client_retry(struct client *c, int opened, struct err *e)
{
	struct err why = ERR_INIT;
	uint64_t ms = BACKOFF_MIN_MS, end, one;
	int rc;

	if (!c->lost.code) {
		c->lost = c->dead;
		c->lost_ms = clock_ms();
	}
	end = c->lost_ms + (uint64_t)c->again_ms;
	if (opened && clock_ms() >= end)
		return client_fail_retry(c, e);
	if (opened)
		client_backoff(opened < 7 ? BACKOFF_MIN_MS << opened
					  : BACKOFF_MAX_MS,
			       end);
	for (;;) {
		client_start_anew(c);
		one = clock_ms() + TRY_MS;
		rc = client_open(c, one > end ? one : end, &why);
		if (rc == 0)
			return 0;
		if (client_is_refusal(c, rc) || clock_ms() >= end)
			break;
		client_backoff(ms, end);
		ms = 2 * ms < BACKOFF_MAX_MS ? 2 * ms : BACKOFF_MAX_MS;
	}
	c->was_refused = client_is_refusal(c, rc);
	err_set(&c->dead, c->was_refused ? rc : ERR_REMOTE,
		c->was_refused ? "%.450s; after it came back: %.450s"
			       : "%.450s; it did not come back: %.450s",
		c->lost.text, why.text);
	return err_set(e, c->dead.code, "%s", c->dead.text);
}

/* Before a repetition: reduces the request's timeout to the rest. */
static void client_shorten_timeouts(struct client *c)
{
	uint64_t now = clock_ms(), left;

	if (!c->timeout_at)
		return;
	left = c->timeout_end > now ? c->timeout_end - now : 0;
	for (int i = 0; i < 4; i++)
		c->out.data[c->timeout_at + (size_t)i] = (char)(left >> 8 * i);
}

static uint64_t client_find_deadline(const struct client *c)
{
	uint64_t now = clock_ms();

	if (c->timeout_end == UINT64_MAX)
		return UINT64_MAX;
	return (c->timeout_end > now ? c->timeout_end : now) + ALLOWANCE_MS;
}

int client_round_trip(struct client *c, struct wire_frame *f, struct err *e)
{
	uint32_t id = c->id;
	uint64_t deadline;
	int rc, opened = 0;

	c->id = id == UINT32_MAX ? 2 : id + 1; /* 1 is HELLO's */
	if (c->dead.code && !client_may_retry(c))
		return err_set(e, c->dead.code, "%s", c->dead.text);
	c->waits[0] = '\0';
	for (;;) {
		deadline = client_find_deadline(c);
		rc = c->dead.code;
		if (rc == 0)
			rc = client_send(c, &c->out, deadline, e);
		if (rc == 0)
			rc = client_await_reply(c, f, id, deadline, e);
		if (!c->dead.code)
			c->lost = (struct err)ERR_INIT;
		if (rc >= 0 || !client_may_retry(c))
			return rc;
		rc = client_retry(c, opened++, e);
		if (rc < 0)
			return rc;
		client_shorten_timeouts(c);
	}
}

/* ---- begin and end ---- */

void client_free(struct client *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	buf_release(&c->in);
	buf_release(&c->out);
	buf_release(&c->raw);
	buf_release(&c->sealed);
	buf_release(&c->words);
	cipher_wipe(&c->cipher);
	auth_wipe(&c->auth);
	free(c);
}

/* Copies hello for later connections, including its strings. */
static int client_keep_hello(struct client *c, const struct wire_hello *hello,
			     struct err *e)
{
	struct slice *const words[] = {&c->hello.job, &c->hello.host};
	size_t at = 0;
	int rc = 0;

	c->hello = *hello;
	if (!c->hello.session)
		rc = random_bytes(&c->hello.session, sizeof(c->hello.session),
				  e);
	buf_init(&c->words, WIRE_HELLO_MAX);
	for (size_t i = 0; i < 2; i++)
		buf_put(&c->words, words[i]->data, words[i]->len);
	if (rc == 0 && c->words.failed)
		rc = err_set(e, c->words.failed, "%s",
			     c->words.failed == -ENOMEM
				     ? "out of memory for the HELLO"
				     : "the job or host name is too long");
	for (size_t i = 0; i < 2; at += words[i++]->len)
		words[i]->data = c->words.data + at;
	return rc;
}

int client_connect(struct client **out, const struct endpoint *ep,
		   const struct wire_hello *hello, const struct auth *auth,
		   int timeout_ms, struct err *e)
{
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX :
			    clock_ms() + (uint64_t)timeout_ms;
	struct client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return err_no_memory(e, "the connection to the server");
	c->fd = -1;
	c->id = 2; /* HELLO's is 1 */
	c->pid = getpid();
	c->endpoint = *ep;
	c->auth = *auth;
	endpoint_text(ep, c->at);
	buf_init(&c->raw, CIPHER_RECORD_MAX + 4 * CLIENT_READ_RAW);
	buf_init(&c->in, WIRE_HEADER_SIZE + WIRE_BODY_MAX + c->raw.max);
	buf_init(&c->out, WIRE_HEADER_SIZE + WIRE_BODY_MAX);
	buf_init(&c->sealed, CIPHER_SEALED_MAX(c->out.max));
	rc = client_keep_hello(c, hello, e);
	if (rc == 0)
		rc = client_open(c, deadline, e);
	if (rc < 0)
		client_free(c);
	else
		*out = c;
	return rc;
}

void client_set_reconnect(struct client *c, int timeout_ms)
{
	c->again_ms = timeout_ms;
}

/* client.c: one request, then its reply, with a deadline. Blocks in poll(2)
 * only. After a failure of the connection it stays failed, with that text. */
#include "rendezvous/client_inside.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	ALLOWANCE_MS = 10000, /* beyond the server's own timeout */
	KEEP_MAX = 256 << 10, /* a large reply's memory is given back */
};

int client_die(struct client *c, int code, const char *what, struct err *e)
{
	if (!c->dead.code)
		err_set(&c->dead, code, "rendezvous server %s: %s%s", c->at,
			what, c->waits);
	return err_set(e, c->dead.code, "%s", c->dead.text);
}

static int die_errno(struct client *c, int error, struct err *e)
{
	char what[128];

	snprintf(what, sizeof what, "the connection broke (%s)",
		 strerror(error));
	return client_die(c, -error, what, e);
}

/* ---- bytes ---- */

/* deadline in clock_ms, UINT64_MAX: none. */
static int left_ms(uint64_t deadline)
{
	uint64_t now = clock_ms();
	uint64_t left = deadline > now ? deadline - now : 0;

	return deadline == UINT64_MAX ? -1 :
	       left > 1 << 30 ? 1 << 30 : (int)left;
}

static int wait_for(struct client *c, short events, uint64_t deadline,
		    struct err *e)
{
	struct pollfd p = {c->fd, events, 0};
	int rc;

	for (;;) {
		rc = poll(&p, 1, left_ms(deadline));
		if (rc > 0)
			return 0;
		if (rc < 0 && errno != EINTR)
			return die_errno(c, errno, e);
		if (rc == 0 && deadline <= clock_ms())
			return client_die(c, ERR_TIMEOUT,
				   "no answer in time; is it, or the network, "
				   "down?", e);
	}
}

int client_receive(struct client *c, uint64_t deadline, struct err *e)
{
	char *to = buf_reserve(&c->in, CLIENT_READ);
	ssize_t n;
	int rc;

	if (!to)
		return client_die(c, c->in.failed, "out of memory", e);
	for (;;) {
		n = recv(c->fd, to, c->in.cap - c->in.len, MSG_DONTWAIT);
		if (n > 0) {
			c->in.len += (size_t)n;
			return 1;
		}
		if (n == 0)
			return client_die(c, ERR_REMOTE,
					  "it closed the connection", e);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return die_errno(c, errno, e);
		rc = wait_for(c, POLLIN, deadline, e);
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

/* As any_frame, of a server that is believed: an error with id 0 is its last
 * word, and becomes ours, as it is. */
static int next_frame(struct client *c, struct wire_frame *f, uint64_t deadline,
		      struct err *e)
{
	struct wire_error m;
	int rc = client_frame(c, f, WIRE_BODY_MAX, deadline, e);

	if (rc < 0 || f->kind != WIRE_ERROR_REPLY || f->id != 0)
		return rc;
	if (wire_get_error(f, &m, NULL) < 0)
		return client_die(c, ERR_PROTOCOL, "it sent a torn error", e);
	c->told = 1;
	err_set(&c->dead, m.code < 0 ? m.code : ERR_PROTOCOL, "%.*s",
		SLICE_FMT(m.text));
	return err_set(e, c->dead.code, "%s", c->dead.text);
}

/* The connection does not take our bytes any more. Why may be on its way to
 * us: the server's last word is read before errno's is believed. */
static int last_word(struct client *c, int error, struct err *e)
{
	enum { PATIENCE_MS = 100 };
	struct wire_frame f;
	int rc;

	do
		rc = next_frame(c, &f, clock_ms() + PATIENCE_MS, e);
	while (rc == 0);
	if (c->told)
		return rc;
	c->dead.code = 0;
	return die_errno(c, error, e);
}

int client_send(struct client *c, uint64_t deadline, struct err *e)
{
	size_t sent = 0;
	ssize_t n;
	int rc;

	if (c->out.failed)
		return err_set(e, ERR_ARGUMENT,
			       "a request of more than %d bytes",
			       WIRE_BODY_MAX);
	while (sent < c->out.len) {
		n = send(c->fd, c->out.data + sent, c->out.len - sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0) {
			sent += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return last_word(c, errno, e);
		rc = wait_for(c, POLLOUT, deadline, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- requests ---- */

static struct buf *begin(struct client *c)
{
	buf_reset(&c->out);
	return &c->out;
}

/* For the case that no answer comes at all. */
static void take_waiting(struct client *c, const struct wire_frame *f,
			 uint32_t id)
{
	struct wire_waiting m;

	if (wire_get_waiting(f, &m, NULL) == 0 && m.request == id)
		snprintf(c->waits, sizeof c->waits, "; this waited %llu s for "
			 "%.*s", (unsigned long long)(m.waited_ms + 500) / 1000,
			 SLICE_FMT(m.text));
}

/* Sends what begin() was filled with and waits for the reply to it. */
static int round_trip(struct client *c, struct wire_frame *f, uint64_t deadline,
		      struct err *e)
{
	struct wire_error m;
	uint32_t id = c->id;
	int rc;

	c->id = id == UINT32_MAX ? 1 : id + 1;
	if (c->dead.code)
		return err_set(e, c->dead.code, "%s", c->dead.text);
	c->waits[0] = '\0';
	rc = client_send(c, deadline, e);
	while (rc == 0) {
		rc = next_frame(c, f, deadline, e);
		if (rc == 0 && f->type == WIRE_WAITING)
			take_waiting(c, f, id);
		/* An answer to a request that was given up is not for us */
		if (rc == 0 && f->id == id)
			break;
	}
	if (rc < 0 || f->kind == WIRE_REPLY)
		return rc;
	if (f->kind != WIRE_ERROR_REPLY || wire_get_error(f, &m, NULL) < 0)
		return client_die(c, ERR_PROTOCOL, "its reply is none", e);
	if (m.code >= 0)
		m.code = ERR_PROTOCOL;
	return err_set(e, m.code, "%.*s", SLICE_FMT(m.text));
}

static uint64_t deadline_after(int timeout_ms)
{
	if (timeout_ms < 0)
		return UINT64_MAX;
	return clock_ms() + (uint64_t)timeout_ms + ALLOWANCE_MS;
}

static uint32_t wire_timeout(int timeout_ms)
{
	return timeout_ms < 0 ? WIRE_NO_TIMEOUT : (uint32_t)timeout_ms;
}

static int simple(struct client *c, struct wire_frame *f, struct err *e)
{
	return round_trip(c, f, deadline_after(0), e);
}

static int torn(struct client *c, const char *what, struct err *e)
{
	return client_die(c, ERR_PROTOCOL, what, e);
}

/* A list of n strings, or of n pairs of them. */
static int list_init(struct buf *items, const struct slice *keys,
		     const struct slice *values, uint32_t n, struct err *e)
{
	uint32_t i;

	buf_init(items, WIRE_BODY_MAX);
	for (i = 0; i < n; i++) {
		buf_put_slice(items, keys[i]);
		if (values)
			buf_put_slice(items, values[i]);
	}
	if (!items->failed)
		return 0;
	buf_release(items);
	return err_set(e, ERR_ARGUMENT, "a list of more than %d bytes",
		       WIRE_BODY_MAX);
}

int client_set(struct client *c, struct slice key, struct slice value,
	       struct err *e)
{
	struct wire_key_value m = {key, value};
	struct wire_frame f;

	wire_put_key_value(begin(c), WIRE_SET, WIRE_REQUEST, c->id, &m);
	return simple(c, &f, e);
}

static int value_reply(struct client *c, const struct wire_frame *f,
		       struct slice *value, struct err *e)
{
	struct wire_value m;
	struct err why = ERR_INIT;

	if (wire_get_value(f, &m, &why) < 0)
		return client_die(c, ERR_PROTOCOL, why.text, e);
	if (value)
		*value = m.value;
	return m.found != 0;
}

int client_get(struct client *c, struct slice key, struct slice *value,
	       struct err *e)
{
	struct wire_key m = {key};
	struct wire_frame f;
	int rc;

	wire_put_key(begin(c), WIRE_GET, WIRE_REQUEST, c->id, &m);
	rc = simple(c, &f, e);
	return rc < 0 ? rc : value_reply(c, &f, value, e);
}

int client_wait(struct client *c, const struct slice *keys, uint32_t n,
		int timeout_ms, struct err *e)
{
	struct wire_wait m = {.timeout_ms = wire_timeout(timeout_ms)};
	struct wire_frame f;
	struct buf items;
	int rc = list_init(&items, keys, NULL, n, e);

	if (rc < 0)
		return rc;
	m.keys = (struct wire_items){n, SLICE(items.data, items.len)};
	wire_put_wait(begin(c), WIRE_WAIT, WIRE_REQUEST, c->id, &m);
	buf_release(&items);
	return round_trip(c, &f, deadline_after(timeout_ms), e);
}

static int int_reply(struct client *c, const struct wire_frame *f,
		     int64_t *value, struct err *e)
{
	struct wire_int m;
	struct err why = ERR_INIT;

	if (wire_get_int(f, &m, &why) < 0)
		return client_die(c, ERR_PROTOCOL, why.text, e);
	if (value)
		*value = m.value;
	return 0;
}

int client_add(struct client *c, struct slice key, int64_t delta,
	       int64_t *value, struct err *e)
{
	struct wire_add m = {key, delta};
	struct wire_frame f;
	int rc;

	wire_put_add(begin(c), WIRE_ADD, WIRE_REQUEST, c->id, &m);
	rc = simple(c, &f, e);
	return rc < 0 ? rc : int_reply(c, &f, value, e);
}

int client_compare_set(struct client *c, struct slice key,
		       struct slice expected, struct slice desired,
		       struct slice *value, struct err *e)
{
	struct wire_compare_set m = {key, expected, desired};
	struct wire_frame f;
	int rc;

	wire_put_compare_set(begin(c), WIRE_COMPARE_SET, WIRE_REQUEST, c->id,
			     &m);
	rc = simple(c, &f, e);
	return rc < 0 ? rc : value_reply(c, &f, value, e);
}

int client_append(struct client *c, struct slice key, struct slice value,
		  int64_t *length, struct err *e)
{
	struct wire_key_value m = {key, value};
	struct wire_frame f;
	int rc;

	wire_put_key_value(begin(c), WIRE_APPEND, WIRE_REQUEST, c->id, &m);
	rc = simple(c, &f, e);
	return rc < 0 ? rc : int_reply(c, &f, length, e);
}

int client_delete(struct client *c, struct slice key, struct err *e)
{
	struct wire_key m = {key};
	struct wire_frame f;
	int64_t existed = 0;
	int rc;

	wire_put_key(begin(c), WIRE_DELETE, WIRE_REQUEST, c->id, &m);
	rc = simple(c, &f, e);
	if (rc == 0)
		rc = int_reply(c, &f, &existed, e);
	return rc < 0 ? rc : existed != 0;
}

int client_multi_get(struct client *c, const struct slice *keys, uint32_t n,
		     struct slice *values, struct err *e)
{
	struct wire_frame f;
	struct wire_list m;
	struct reader r;
	struct buf items;
	uint32_t i;
	int rc = list_init(&items, keys, NULL, n, e);

	if (rc < 0)
		return rc;
	m.items = (struct wire_items){n, SLICE(items.data, items.len)};
	wire_put_list(begin(c), WIRE_MULTI_GET, WIRE_REQUEST, c->id, &m);
	buf_release(&items);
	rc = simple(c, &f, e);
	if (rc < 0)
		return rc;
	if (wire_get_list(&f, &m, NULL) < 0 || m.items.count != n)
		return torn(c, "MULTI_GET: a torn reply", e);
	reader_init(&r, m.items.bytes);
	for (i = 0; i < n; i++) {
		int found = reader_u8(&r);

		values[i] = reader_slice(&r);
		if (!found)
			values[i] = SLICE(NULL, 0);
	}
	return r.bad ? torn(c, "MULTI_GET: a torn reply", e) : 0;
}

int client_multi_set(struct client *c, const struct slice *keys,
		     const struct slice *values, uint32_t n, struct err *e)
{
	struct wire_frame f;
	struct wire_list m;
	struct buf items;
	int rc = list_init(&items, keys, values, n, e);

	if (rc < 0)
		return rc;
	m.items = (struct wire_items){n, SLICE(items.data, items.len)};
	wire_put_list(begin(c), WIRE_MULTI_SET, WIRE_REQUEST, c->id, &m);
	buf_release(&items);
	return simple(c, &f, e);
}

int client_barrier(struct client *c, struct slice key, uint32_t size,
		   int timeout_ms, struct err *e)
{
	struct wire_barrier m = {key, size, wire_timeout(timeout_ms)};
	struct wire_frame f;

	wire_put_barrier(begin(c), WIRE_BARRIER, WIRE_REQUEST, c->id, &m);
	return round_trip(c, &f, deadline_after(timeout_ms), e);
}

int client_gather(struct client *c, struct slice key, uint32_t size,
		  int timeout_ms, struct slice value, struct slice *values,
		  struct err *e)
{
	struct wire_gather m = {key, size, wire_timeout(timeout_ms), value};
	struct wire_frame f;
	struct wire_list got;
	struct reader r;
	uint32_t i;
	int rc;

	wire_put_gather(begin(c), WIRE_GATHER, WIRE_REQUEST, c->id, &m);
	rc = round_trip(c, &f, deadline_after(timeout_ms), e);
	if (rc < 0)
		return rc;
	if (wire_get_list(&f, &got, NULL) < 0 || got.items.count != size)
		return client_die(c, ERR_PROTOCOL, "GATHER: a torn reply", e);
	reader_init(&r, got.items.bytes);
	for (i = 0; i < size; i++)
		values[i] = reader_slice(&r);
	return r.bad ? torn(c, "GATHER: a torn reply", e) : 0;
}

int client_fate(struct client *c, uint32_t rank, int timeout_ms,
		struct slice *text, struct err *e)
{
	struct wire_fate m = {rank, wire_timeout(timeout_ms)};
	struct wire_text got;
	struct wire_frame f;
	struct err why = ERR_INIT;
	int rc;

	wire_put_fate(begin(c), WIRE_FATE, WIRE_REQUEST, c->id, &m);
	rc = round_trip(c, &f, deadline_after(timeout_ms), e);
	if (rc < 0)
		return rc;
	if (wire_get_text(&f, &got, &why) < 0)
		return client_die(c, ERR_PROTOCOL, why.text, e);
	*text = got.text;
	return 0;
}

/* ---- the end ---- */

void client_left(struct client *c)
{
	struct err ignored;

	if (c->dead.code)
		return;
	wire_put_empty(begin(c), WIRE_LEFT, WIRE_NOTICE, 0);
	client_send(c, clock_ms(), &ignored);
}

void client_free(struct client *c)
{
	if (!c)
		return;
	if (c->fd >= 0)
		close(c->fd);
	buf_release(&c->in);
	buf_release(&c->out);
	free(c);
}

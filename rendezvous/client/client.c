/* client.c: encodes each request and decodes its reply. client_io.c transports
 * them. */
#include "rendezvous/client/client.h"

#include "base/clock.h"
#include "rendezvous/client/client_io.h"

static struct buf *client_begin_request(struct client *c)
{
	buf_reset(&c->out);
	c->timeout_at = 0;
	c->timeout_end = 0;
	return &c->out;
}

static uint32_t client_wire_timeout(int timeout_ms)
{
	return timeout_ms < 0 ? WIRE_NO_TIMEOUT : (uint32_t)timeout_ms;
}

/* The request has a time limit, at offset `at` of the frame. If the request is
 * repeated, only the rest of that time is filled in. */
static void client_set_deadline(struct client *c, size_t at, int timeout_ms)
{
	if (timeout_ms < 0) {
		c->timeout_end = UINT64_MAX;
		return;
	}
	c->timeout_end = clock_ms() + (uint64_t)timeout_ms;
	if (!c->out.failed)
		c->timeout_at = at;
}

static int client_fail_torn(struct client *c, const char *what, struct err *e)
{
	return client_die(c, ERR_PROTOCOL, what, e);
}

/* Encodes a list of n keys, or of n key-value pairs. */
static int client_list_init(struct buf *items, const struct slice *keys,
			    uint32_t n, struct err *e)
{
	buf_init(items, WIRE_BODY_MAX);
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(items, keys[i]);
	if (!items->failed)
		return 0;
	buf_release(items);
	return err_set(e, ERR_ARGUMENT, "the list has more than %d bytes",
		       WIRE_BODY_MAX);
}

int client_set(struct client *c, struct slice key, struct slice value,
	       struct err *e)
{
	struct wire_key_value m = {key, value};
	struct wire_frame f;

	wire_put_key_value(client_begin_request(c), WIRE_SET, WIRE_REQUEST,
			   c->id, &m);
	return client_round_trip(c, &f, e);
}

static int client_read_value(struct client *c, const struct wire_frame *f,
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

	wire_put_key(client_begin_request(c), WIRE_GET, WIRE_REQUEST, c->id,
		     &m);
	rc = client_round_trip(c, &f, e);
	return rc < 0 ? rc : client_read_value(c, &f, value, e);
}

int client_wait(struct client *c, const struct slice *keys, uint32_t n,
		int timeout_ms, struct err *e)
{
	struct wire_wait m = {.timeout_ms = client_wire_timeout(timeout_ms)};
	struct wire_frame f;
	struct buf items;
	int rc = client_list_init(&items, keys, n, e);

	if (rc < 0)
		return rc;
	m.keys = (struct wire_items){n, SLICE(items.data, items.len)};
	wire_put_wait(client_begin_request(c), WIRE_WAIT, WIRE_REQUEST, c->id,
		      &m);
	client_set_deadline(c, WIRE_HEADER_SIZE, timeout_ms);
	buf_release(&items);
	return client_round_trip(c, &f, e);
}

static int client_read_int(struct client *c, const struct wire_frame *f,
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

	wire_put_add(client_begin_request(c), WIRE_ADD, WIRE_REQUEST, c->id,
		     &m);
	rc = client_round_trip(c, &f, e);
	return rc < 0 ? rc : client_read_int(c, &f, value, e);
}

int client_compare_set(struct client *c, struct slice key,
		       struct slice expected, struct slice desired,
		       struct slice *value, struct err *e)
{
	struct wire_compare_set m = {key, expected, desired};
	struct wire_frame f;
	int rc;

	wire_put_compare_set(client_begin_request(c), WIRE_COMPARE_SET,
			     WIRE_REQUEST, c->id, &m);
	rc = client_round_trip(c, &f, e);
	return rc < 0 ? rc : client_read_value(c, &f, value, e);
}

int client_append(struct client *c, struct slice key, struct slice value,
		  int64_t *length, struct err *e)
{
	struct wire_key_value m = {key, value};
	struct wire_frame f;
	int rc;

	wire_put_key_value(client_begin_request(c), WIRE_APPEND, WIRE_REQUEST,
			   c->id, &m);
	rc = client_round_trip(c, &f, e);
	return rc < 0 ? rc : client_read_int(c, &f, length, e);
}

int client_delete(struct client *c, struct slice key, struct err *e)
{
	struct wire_key m = {key};
	struct wire_frame f;
	int64_t existed = 0;
	int rc;

	wire_put_key(client_begin_request(c), WIRE_DELETE, WIRE_REQUEST, c->id,
		     &m);
	rc = client_round_trip(c, &f, e);
	if (rc == 0)
		rc = client_read_int(c, &f, &existed, e);
	return rc < 0 ? rc : existed != 0;
}

int client_gather(struct client *c, struct slice key, uint32_t size,
		  int timeout_ms, struct slice value, struct slice *values,
		  struct err *e)
{
	struct wire_gather m = {key, size, client_wire_timeout(timeout_ms),
				value};
	struct wire_frame f;
	struct wire_list got;
	struct reader r;
	int rc;

	wire_put_gather(client_begin_request(c), WIRE_GATHER, WIRE_REQUEST,
			c->id, &m);
	client_set_deadline(c, WIRE_HEADER_SIZE + 4 + key.len + 4, timeout_ms);
	rc = client_round_trip(c, &f, e);
	if (rc < 0)
		return rc;
	if (wire_get_list(&f, &got, NULL) < 0 || got.items.count != size)
		return client_fail_torn(c, "GATHER: the reply is malformed", e);
	reader_init(&r, got.items.bytes);
	for (uint32_t i = 0; i < size; i++)
		values[i] = reader_slice(&r);
	return r.bad ? client_fail_torn(c, "GATHER: the reply is malformed", e)
		     : 0;
}

int client_share(struct client *c, struct wire_share *m, int timeout_ms,
		 struct wire_shared *got, struct err *e)
{
	struct err why = ERR_INIT;
	struct wire_frame f;
	int rc;

	m->timeout_ms = client_wire_timeout(timeout_ms);
	wire_put_share(client_begin_request(c), WIRE_SHARE, WIRE_REQUEST, c->id,
		       m);
	client_set_deadline(c, WIRE_HEADER_SIZE + 4 + m->key.len + 4,
			    timeout_ms);
	rc = client_round_trip(c, &f, e);
	if (rc < 0)
		return rc;
	if (wire_get_shared(&f, got, &why) < 0)
		return client_die(c, ERR_PROTOCOL, why.text, e);
	if (got->values.count ? got->values.count != m->size :
	    !got->port || got->token.len != WIRE_TOKEN_SIZE ||
	    got->hash.len != WIRE_HASH_SIZE || got->bytes > WIRE_BODY_MAX)
		return client_fail_torn(c, "SHARE: the reply is malformed", e);
	return 0;
}

int client_whole(struct client *c, uint32_t size, struct slice *list,
		 struct err *e)
{
	struct wire_list got;
	struct wire_frame f;
	int rc;

	wire_put_empty(client_begin_request(c), WIRE_SHARED_LIST, WIRE_REQUEST,
		       c->id);
	rc = client_round_trip(c, &f, e);
	if (rc < 0)
		return rc;
	if (wire_get_list(&f, &got, NULL) < 0 || got.items.count != size)
		return client_fail_torn(
			c, "SHARED_LIST: the reply is malformed", e);
	*list = got.items.bytes;
	return 0;
}

int client_fate(struct client *c, uint32_t rank, int timeout_ms,
		struct slice *text, struct err *e)
{
	struct wire_fate m = {rank, client_wire_timeout(timeout_ms)};
	struct wire_text got;
	struct wire_frame f;
	struct err why = ERR_INIT;
	int rc;

	wire_put_fate(client_begin_request(c), WIRE_FATE, WIRE_REQUEST, c->id,
		      &m);
	client_set_deadline(c, c->out.len - 4, timeout_ms);
	rc = client_round_trip(c, &f, e);
	if (rc < 0)
		return rc;
	if (wire_get_text(&f, &got, &why) < 0)
		return client_die(c, ERR_PROTOCOL, why.text, e);
	*text = got.text;
	return 0;
}

void client_left(struct client *c)
{
	struct err ignored;

	if (c->dead.code)
		return;
	wire_put_empty(client_begin_request(c), WIRE_GOODBYE, WIRE_NOTICE, 0);
	client_send(c, &c->out, clock_ms(), &ignored);
}

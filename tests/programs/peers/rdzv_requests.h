/* rdzv_requests.h: the requests of a client that libddp never makes. */
#ifndef TESTS_RDZV_REQUESTS_H
#define TESTS_RDZV_REQUESTS_H

#include "base/clock.h"
#include "rendezvous/client/client_io.h"

static inline struct buf *rdzv_begin(struct client *c)
{
	buf_reset(&c->out);
	c->timeout_at = 0;
	c->timeout_end = 0;
	return &c->out;
}

/* MULTI_GET or MULTI_SET of two keys, which have n words in all. */
static inline int rdzv_multi(struct client *c, unsigned type,
			     const struct slice *words, uint32_t n,
			     struct wire_frame *f, struct err *e)
{
	struct buf items = BUF_INIT(WIRE_BODY_MAX);
	struct wire_list m;

	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(&items, words[i]);
	m.items = (struct wire_items){2, SLICE(items.data, items.len)};
	wire_put_list(rdzv_begin(c), type, WIRE_REQUEST, c->id, &m);
	buf_release(&items);
	return client_round_trip(c, f, e);
}

/* The values of two keys, and whether they exist. */
static inline int rdzv_multi_get(struct client *c, const struct slice *keys,
				 struct slice *values, int *found,
				 struct err *e)
{
	struct wire_frame f;
	struct wire_list m;
	struct reader r;
	int rc = rdzv_multi(c, WIRE_MULTI_GET, keys, 2, &f, e);

	if (rc == 0)
		rc = wire_get_list(&f, &m, e);
	if (rc < 0)
		return rc;
	reader_init(&r, m.items.bytes);
	for (int i = 0; i < 2; i++) {
		found[i] = reader_u8(&r);
		values[i] = reader_slice(&r);
	}
	return r.bad || m.items.count != 2
		       ? err_set(e, ERR_PROTOCOL, "the reply is malformed") : 0;
}

/* words: key, value, key, value. */
static inline int rdzv_multi_set(struct client *c, const struct slice *words,
				 struct err *e)
{
	struct wire_frame f;

	return rdzv_multi(c, WIRE_MULTI_SET, words, 4, &f, e);
}

static inline int rdzv_barrier(struct client *c, struct slice key,
			       uint32_t size, int ms, struct err *e)
{
	struct wire_barrier m = {key, size,
				 ms < 0 ? WIRE_NO_TIMEOUT : (uint32_t)ms};
	struct wire_frame f;

	wire_put_barrier(rdzv_begin(c), WIRE_BARRIER, WIRE_REQUEST, c->id, &m);
	c->timeout_at = c->out.len - 4;
	c->timeout_end = ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)ms;
	return client_round_trip(c, &f, e);
}

#endif

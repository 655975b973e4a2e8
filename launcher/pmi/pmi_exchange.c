/* pmi_exchange.c: SET, BARRIER and MULTI_GET. */
#include "launcher/pmi/pmi_exchange.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 64 };

/* ---- requests ---- */

static struct slice pmi_exchange_key(const struct pmi_exchange *x,
				     uint32_t node, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "%s/%u/node %u", x->round.name,
		 x->number, node);
	return SLICE_STR(out);
}

static void pmi_exchange_put_set(struct pmi_exchange *x, struct buf *out,
				 uint32_t id)
{
	char key[KEY_MAX];
	const struct wire_key_value m = {
		pmi_exchange_key(x, x->round.node_rank, key),
		SLICE(x->mine.data ? x->mine.data : "", x->mine.len)};

	wire_put_key_value(out, WIRE_SET, WIRE_REQUEST, id, &m);
}

static void pmi_exchange_put_meet(struct pmi_exchange *x, struct buf *out,
				  uint32_t id)
{
	char key[KEY_MAX];
	struct wire_barrier m = {.size = x->round.nnodes,
				 .timeout_ms = WIRE_NO_TIMEOUT};

	snprintf(key, sizeof(key), "%s/%u (of nodes)", x->round.name,
		 x->number);
	m.key = SLICE_STR(key);
	wire_put_barrier(out, WIRE_BARRIER, WIRE_REQUEST, id, &m);
}

static void pmi_exchange_put_get(struct pmi_exchange *x, struct buf *out,
				 uint32_t id)
{
	struct buf keys = BUF_INIT(WIRE_BODY_MAX);
	char key[KEY_MAX];
	struct wire_list m = {.items = {.count = x->round.nnodes}};
	int rc;

	for (uint32_t i = 0; i < x->round.nnodes; i++)
		buf_put_slice(&keys, pmi_exchange_key(x, i, key));
	rc = buf_bytes(&keys, &m.items.bytes);
	if (rc == 0)
		wire_put_list(out, WIRE_MULTI_GET, WIRE_REQUEST, id, &m);
	else /* costs the connection: the next one sends all of it */
		out->failed = rc;
	buf_release(&keys);
}

static void put(struct round_client *c, struct buf *out, uint32_t id)
{
	struct pmi_exchange *x = c->owner;

	if (x->step == EXCHANGE_SET)
		pmi_exchange_put_set(x, out, id);
	else if (x->step == EXCHANGE_MEET)
		pmi_exchange_put_meet(x, out, id);
	else
		pmi_exchange_put_get(x, out, id);
}

static void pmi_exchange_step(struct pmi_exchange *x,
			      enum pmi_exchange_step step)
{
	x->step = step;
	round_client_call(&x->client);
}

void pmi_exchange_begin(struct pmi_exchange *x, struct slice mine)
{
	struct err e = ERR_INIT;

	buf_reset(&x->mine);
	buf_put(&x->mine, mine.data, mine.len);
	x->number++;
	if (x->mine.failed) {
		err_no_memory(&e, "MPI's exchange among nodes");
		x->events->on_failed(x, &e);
		return;
	}
	pmi_exchange_step(x, EXCHANGE_SET);
}

/* ---- replies ---- */

static int pmi_exchange_read(struct pmi_exchange *x,
			     const struct wire_frame *f, struct slice *values,
			     struct err *e)
{
	struct wire_list m;
	struct reader r;
	int rc = wire_get_list(f, &m, e);

	if (rc < 0)
		return rc;
	reader_init(&r, m.items.bytes);
	for (uint32_t i = 0; i < x->round.nnodes; i++) {
		if (m.items.count != x->round.nnodes || !reader_u8(&r))
			return err_set(e, ERR_PROTOCOL, "the store lacks node "
				       "%u's part of MPI's exchange %u", i,
				       x->number);
		values[i] = reader_slice(&r);
	}
	return r.bad ? err_set(e, ERR_PROTOCOL, "MULTI_GET: malformed") : 0;
}

static void pmi_exchange_finish(struct pmi_exchange *x,
				const struct wire_frame *f)
{
	struct slice *values = calloc(x->round.nnodes, sizeof(*values));
	struct err e = ERR_INIT;
	int rc = values ? pmi_exchange_read(x, f, values, &e)
			: err_no_memory(&e, "MPI's exchange among nodes");

	x->step = EXCHANGE_IDLE;
	if (rc < 0)
		x->events->on_failed(x, &e);
	else
		x->events->on_done(x, values);
	free(values);
}

static void pmi_exchange_on_reply(struct round_client *c,
				  const struct wire_frame *f)
{
	struct pmi_exchange *x = c->owner;

	if (x->step == EXCHANGE_SET)
		pmi_exchange_step(x, EXCHANGE_MEET);
	else if (x->step == EXCHANGE_MEET)
		pmi_exchange_step(x, EXCHANGE_GET);
	else
		pmi_exchange_finish(x, f);
}

static void pmi_exchange_on_failed(struct round_client *c,
				   const struct err *why)
{
	struct pmi_exchange *x = c->owner;

	x->events->on_failed(x, why);
}

static void pmi_exchange_on_closed(struct round_client *c)
{
	struct pmi_exchange *x = c->owner;

	buf_release(&x->mine);
	x->events->on_closed(x);
}

static const struct sock_addr *find_server(struct round_client *c)
{
	struct pmi_exchange *x = c->owner;

	return x->events->find_server(x);
}

static const struct round_client_events client_events = {
	.put = put,
	.on_reply = pmi_exchange_on_reply,
	.on_failed = pmi_exchange_on_failed,
	.on_closed = pmi_exchange_on_closed,
	.find_server = find_server,
};

int pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
		       const struct pmi_exchange_round *round,
		       const struct pmi_exchange_events *events,
		       struct err *e)
{
	void *owner = x->owner;

	*x = (struct pmi_exchange){.owner = owner, .events = events,
				   .round = *round};
	buf_init(&x->mine, WIRE_VALUE_MAX);
	return round_client_start(&x->client, loop, &round->self,
				  "MPI's exchange among nodes", &client_events,
				  x, e);
}

void pmi_exchange_close(struct pmi_exchange *x)
{
	round_client_close(&x->client);
}

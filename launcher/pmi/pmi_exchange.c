/* pmi_exchange.c: SET, BARRIER and MULTI_GET, one request at a time, so that a
 * server that comes back has at most one to answer again. */
#include "launcher/pmi/pmi_exchange.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/random.h"

enum { RETRY_MS = 100, KEY_MAX = 64 };

static void pmi_exchange_call(struct pmi_exchange *x);

/* ---- requests ---- */

static struct slice pmi_exchange_key(const struct pmi_exchange *x,
				     uint32_t node, char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "MPI/%u/node %u", x->number, node);
	return SLICE_STR(out);
}

static void pmi_exchange_put_set(struct pmi_exchange *x, struct buf *out)
{
	char key[KEY_MAX];
	const struct wire_key_value m = {
		pmi_exchange_key(x, x->round.node_rank, key),
		SLICE(x->mine.data ? x->mine.data : "", x->mine.len)};

	wire_put_key_value(out, WIRE_SET, WIRE_REQUEST, x->id, &m);
}

static void pmi_exchange_put_meet(struct pmi_exchange *x, struct buf *out)
{
	char key[KEY_MAX];
	struct wire_barrier m = {.size = x->round.nnodes,
				 .timeout_ms = WIRE_NO_TIMEOUT};

	snprintf(key, sizeof(key), "MPI/%u (of nodes)", x->number);
	m.key = SLICE_STR(key);
	wire_put_barrier(out, WIRE_BARRIER, WIRE_REQUEST, x->id, &m);
}

static void pmi_exchange_put_get(struct pmi_exchange *x, struct buf *out)
{
	struct buf keys = BUF_INIT(WIRE_BODY_MAX);
	char key[KEY_MAX];
	struct wire_list m;

	for (uint32_t i = 0; i < x->round.nnodes; i++)
		buf_put_slice(&keys, pmi_exchange_key(x, i, key));
	m.items = (struct wire_items){x->round.nnodes,
				      SLICE(keys.data, keys.len)};
	wire_put_list(out, WIRE_MULTI_GET, WIRE_REQUEST, x->id, &m);
	buf_release(&keys);
}

/* Sends the request of this step, again if the server is a new one. */
static void pmi_exchange_send(struct pmi_exchange *x)
{
	struct buf *out = async_client_out(&x->link);

	if (!x->is_greeted || x->step == EXCHANGE_IDLE)
		return;
	if (x->step == EXCHANGE_SET)
		pmi_exchange_put_set(x, out);
	else if (x->step == EXCHANGE_MEET)
		pmi_exchange_put_meet(x, out);
	else
		pmi_exchange_put_get(x, out);
	async_client_flush(&x->link);
}

static void pmi_exchange_step(struct pmi_exchange *x,
			      enum pmi_exchange_step step)
{
	x->step = step;
	x->id++;
	pmi_exchange_send(x);
}

void pmi_exchange_begin(struct pmi_exchange *x, struct slice mine)
{
	buf_reset(&x->mine);
	buf_put(&x->mine, mine.data, mine.len);
	x->number++;
	pmi_exchange_step(x, EXCHANGE_SET);
}

/* ---- replies ---- */

static void pmi_exchange_fail(struct pmi_exchange *x, const struct err *why)
{
	x->step = EXCHANGE_IDLE;
	if (!x->is_closing)
		x->events->on_failed(x, why);
}

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
	return r.bad ? err_set(e, ERR_PROTOCOL, "MULTI_GET: torn") : 0;
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
		pmi_exchange_fail(x, &e);
	else
		x->events->on_done(x, values);
	free(values);
}

/* ABORTED: the round is over, as the agent hears. */
static void pmi_exchange_end(struct pmi_exchange *x, const struct err *why)
{
	if (why->code == ERR_ABORTED)
		x->step = EXCHANGE_IDLE;
	else
		pmi_exchange_fail(x, why);
}

static void pmi_exchange_refused(struct pmi_exchange *x,
				 const struct wire_frame *f)
{
	struct err e = ERR_INIT;
	struct wire_error m;

	if (wire_get_error(f, &m, &e) == 0)
		err_set(&e, m.code, "MPI's exchange among nodes: %.*s",
			SLICE_FMT(m.text));
	pmi_exchange_end(x, &e);
}

static void on_frame(struct async_client *l, const struct wire_frame *f)
{
	struct pmi_exchange *x = l->owner;

	if (f->kind == WIRE_ERROR_REPLY) {
		x->is_over = f->type == WIRE_HELLO;
		if (x->is_over)
			async_client_close(l);
		pmi_exchange_refused(x, f);
		return;
	}
	if (f->kind != WIRE_REPLY || f->id != x->id)
		return;
	if (x->step == EXCHANGE_SET)
		pmi_exchange_step(x, EXCHANGE_MEET);
	else if (x->step == EXCHANGE_MEET)
		pmi_exchange_step(x, EXCHANGE_GET);
	else if (x->step == EXCHANGE_GET)
		pmi_exchange_finish(x, f);
}

/* ---- the connection ---- */

static void on_open(struct async_client *l)
{
	struct pmi_exchange *x = l->owner;

	x->is_greeted = 1;
	pmi_exchange_send(x);
}

static void on_retry(uv_timer_t *t)
{
	log_debug("MPI's exchange among nodes: calling the server again");
	pmi_exchange_call(t->data);
}

/* The agent notices the loss as well, and decides how long it may last. */
static void on_lost(struct async_client *l, const struct err *why)
{
	struct pmi_exchange *x = l->owner;

	log_debug("MPI's exchange among nodes: %s", why->text);
	x->is_over |= l->was_refused;
	async_client_close(l);
	if (l->was_refused)
		pmi_exchange_end(x, why);
}

static void pmi_exchange_check_closed(struct pmi_exchange *x)
{
	if (!x->is_closing || x->link_open || x->is_retry_open)
		return;
	buf_release(&x->mine);
	x->events->on_closed(x);
}

static void on_link_closed(struct async_client *l)
{
	struct pmi_exchange *x = l->owner;

	x->link_open = x->is_greeted = 0;
	if (!x->is_closing && !x->is_over)
		uv_timer_start(&x->retry, on_retry, RETRY_MS, 0);
	pmi_exchange_check_closed(x);
}

static const struct async_client_events link_events = {
	.on_open = on_open, .on_frame = on_frame, .on_lost = on_lost,
	.on_closed = on_link_closed,
};

static void pmi_exchange_call(struct pmi_exchange *x)
{
	const struct wire_hello hello = {
		.role = WIRE_WORKER, .job = SLICE_STR(x->round.job),
		.host = SLICE_STR(x->round.host), .round = x->round.round,
		.rank = x->round.rank, .session = x->session,
	};
	struct err e = ERR_INIT;

	if (async_client_start(&x->link, x->loop, x->events->find_server(x),
			       &hello, x->round.auth, &link_events, &e) < 0) {
		pmi_exchange_fail(x, &e);
		return;
	}
	x->link.owner = x;
	x->link_open = 1;
}

int pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
		       const struct pmi_exchange_round *round,
		       const struct pmi_exchange_events *events,
		       struct err *e)
{
	void *owner = x->owner;
	int rc;

	*x = (struct pmi_exchange){.owner = owner, .events = events,
				   .round = *round, .loop = loop};
	rc = random_bytes(&x->session, sizeof(x->session), e);
	if (rc < 0)
		return rc;
	buf_init(&x->mine, WIRE_VALUE_MAX);
	uv_timer_init(loop, &x->retry);
	x->retry.data = x;
	x->is_retry_open = 1;
	pmi_exchange_call(x);
	return 0;
}

static void on_retry_closed(uv_handle_t *h)
{
	struct pmi_exchange *x = h->data;

	x->is_retry_open = 0;
	pmi_exchange_check_closed(x);
}

void pmi_exchange_close(struct pmi_exchange *x)
{
	x->is_closing = 1;
	uv_close((uv_handle_t *)&x->retry, on_retry_closed);
	if (x->link_open)
		async_client_drop(&x->link);
}

/* pmi_exchange.c: SHARE, and SET and GET for each piece. */
#include "launcher/pmi/pmi_exchange.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

enum { KEY_MAX = 64 };

/* ---- requests ---- */

static struct slice pmi_exchange_piece_key(const struct pmi_exchange *x,
					   char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "%s/%u/node %u/%u", x->round.name,
		 x->number, x->node, x->piece);
	return SLICE_STR(out);
}

static struct slice pmi_exchange_value(const struct pmi_exchange *x)
{
	return SLICE(x->mine.data + 1, x->mine.len - 1);
}

/* 1: the value is set in pieces. */
static int pmi_exchange_is_large(const struct pmi_exchange *x)
{
	return x->mine.len > PMI_EXCHANGE_REPLY_MAX / x->round.nnodes;
}

static size_t pmi_exchange_piece_size(const struct pmi_exchange *x)
{
	size_t left = pmi_exchange_value(x).len -
		      (size_t)x->piece * PMI_EXCHANGE_PIECE;

	return left < PMI_EXCHANGE_PIECE ? left : PMI_EXCHANGE_PIECE;
}

static void pmi_exchange_put_set_piece(struct pmi_exchange *x, struct buf *out,
				       uint32_t id)
{
	char key[KEY_MAX];
	const struct wire_key_value m = {
		pmi_exchange_piece_key(x, key),
		SLICE(pmi_exchange_value(x).data +
			      (size_t)x->piece * PMI_EXCHANGE_PIECE,
		      pmi_exchange_piece_size(x))};

	wire_put_key_value(out, WIRE_SET, WIRE_REQUEST, id, &m);
}

static void pmi_exchange_put_share(struct pmi_exchange *x, struct buf *out,
				   uint32_t id)
{
	char key[KEY_MAX];
	size_t n = pmi_exchange_is_large(x) ? 1 : x->mine.len;
	struct wire_share m = {
		.size = x->round.nnodes, .timeout_ms = WIRE_NO_TIMEOUT,
		.value = SLICE(x->mine.data, n), .of_nodes = 1,
		.node = x->round.node_rank};

	snprintf(key, sizeof(key), "%s/%u (of nodes)", x->round.name,
		 x->number);
	m.key = SLICE_STR(key);
	if (x->offers)
		node_relay_offer(x->relays, &m);
	wire_put_share(out, WIRE_SHARE, WIRE_REQUEST, id, &m);
}

static void pmi_exchange_put_list(struct pmi_exchange *x, struct buf *out,
				  uint32_t id)
{
	(void)x;
	wire_put_empty(out, WIRE_SHARED_LIST, WIRE_REQUEST, id);
}

static void pmi_exchange_put_get_piece(struct pmi_exchange *x, struct buf *out,
				       uint32_t id)
{
	char key[KEY_MAX];
	const struct wire_key m = {pmi_exchange_piece_key(x, key)};

	wire_put_key(out, WIRE_GET, WIRE_REQUEST, id, &m);
}

static void put(struct round_client *c, struct buf *out, uint32_t id)
{
	static void (*const puts[])(struct pmi_exchange *x, struct buf *out,
				    uint32_t id) = {
		[EXCHANGE_SET_PIECE] = pmi_exchange_put_set_piece,
		[EXCHANGE_SHARE] = pmi_exchange_put_share,
		[EXCHANGE_LIST] = pmi_exchange_put_list,
		[EXCHANGE_GET_PIECE] = pmi_exchange_put_get_piece,
	};
	struct pmi_exchange *x = c->owner;

	puts[x->step](x, out, id);
}

static void pmi_exchange_step(struct pmi_exchange *x,
			      enum pmi_exchange_step step)
{
	x->step = step;
	round_client_call(&x->client);
}

static void pmi_exchange_fail(struct pmi_exchange *x, const struct err *why)
{
	x->step = EXCHANGE_IDLE;
	x->events->on_failed(x, why);
}

/* ---- other nodes ---- */

static void pmi_exchange_release_parts(struct pmi_exchange *x)
{
	for (uint32_t i = 0; x->parts && i < x->round.nnodes; i++)
		buf_release(&x->parts[i].bytes);
	free(x->parts);
	x->parts = NULL;
}

static void pmi_exchange_part_closed(struct pmi_exchange *x)
{
	if (--x->open_parts)
		return;
	buf_release(&x->mine);
	pmi_exchange_release_parts(x);
	x->events->on_closed(x);
}

static void pmi_exchange_on_relay_closed(struct node_relay *r)
{
	struct pmi_exchange *x = r->owner;
	struct node_relay **at = &x->relays;

	while (*at != r)
		at = &(*at)->next;
	x->offers &= at != &x->relays;
	*at = r->next;
	free(r);
	pmi_exchange_part_closed(x);
}

/* Offers to pass the list on, if it seems to be large. To two nodes the server
 * sends it as often. */
static void pmi_exchange_offer(struct pmi_exchange *x)
{
	struct err e = ERR_INIT;
	struct node_relay *r;

	if (!x->round.addr || x->round.nnodes < 3 ||
	    pmi_exchange_is_large(x) ||
	    x->mine.len < PMI_EXCHANGE_PASSED_ON / x->round.nnodes)
		return;
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	r->owner = x;
	r->on_closed = pmi_exchange_on_relay_closed;
	if (node_relay_start(r, x->client.loop, x->round.addr,
			     x->round.nnodes, &e) < 0) {
		log_debug("MPI's exchange among nodes: %s", e.text);
		free(r);
		return;
	}
	r->next = x->relays;
	x->relays = r;
	x->open_parts++;
	x->offers = 1;
}

static void pmi_exchange_take_list(struct pmi_exchange *x, struct slice list);

static void pmi_exchange_on_fetch_closed(struct node_fetch *f)
{
	struct pmi_exchange *x = f->owner;

	free(f);
	pmi_exchange_part_closed(x);
}

static void pmi_exchange_on_fetched(struct node_fetch *f, struct slice list)
{
	struct pmi_exchange *x = f->owner;

	x->fetch = NULL;
	log_debug("MPI's exchange %u: the list %s", x->number,
		  list.data ? "came from another node"
			    : "did not come from another node; asking the "
			      "server");
	if (list.data) {
		pmi_exchange_take_list(x, list);
		return;
	}
	pmi_exchange_step(x, EXCHANGE_LIST);
}

static void pmi_exchange_fetch(struct pmi_exchange *x,
			       const struct wire_shared *from)
{
	struct node_fetch *f = calloc(1, sizeof(*f));

	if (!f) {
		pmi_exchange_step(x, EXCHANGE_LIST);
		return;
	}
	x->step = EXCHANGE_FETCH;
	f->owner = x;
	f->on_list = pmi_exchange_on_fetched;
	f->on_closed = pmi_exchange_on_fetch_closed;
	x->fetch = f;
	x->open_parts++;
	node_fetch_start(f, x->client.loop, from,
			 x->round.addr ? x->round.addr : "");
}

void pmi_exchange_begin(struct pmi_exchange *x, struct slice mine)
{
	struct err e = ERR_INIT;

	buf_reset(&x->mine);
	buf_put_u8(&x->mine, 0);
	buf_put(&x->mine, mine.data, mine.len);
	x->number++;
	x->node = x->round.node_rank;
	x->piece = 0;
	x->offers = 0;
	if (x->mine.failed) {
		if (x->mine.failed == -ENOMEM)
			err_no_memory(&e, "MPI's exchange among nodes");
		else
			err_set(&e, x->mine.failed, "this node's part of MPI's "
				"exchange has %zu bytes, more than %d",
				mine.len, PMI_EXCHANGE_VALUE_MAX);
		x->events->on_failed(x, &e);
		return;
	}
	x->mine.data[0] = (char)pmi_exchange_is_large(x);
	pmi_exchange_offer(x);
	pmi_exchange_step(x, pmi_exchange_is_large(x) ? EXCHANGE_SET_PIECE
						      : EXCHANGE_SHARE);
}

/* ---- replies ---- */

static int pmi_exchange_fail_part(struct pmi_exchange *x, int failed,
				  struct err *e)
{
	if (failed == -ENOMEM)
		return err_no_memory(e, "MPI's exchange among nodes");
	return err_set(e, ERR_PROTOCOL, "node %u's part of MPI's exchange %u "
		       "has more than %d bytes", x->node, x->number,
		       PMI_EXCHANGE_VALUE_MAX);
}

static int pmi_exchange_lacks(struct pmi_exchange *x, struct err *e)
{
	return err_set(e, ERR_PROTOCOL, "the store lacks node %u's part of "
		       "MPI's exchange %u", x->node, x->number);
}

/* Keeps the values that are here, while pieces of others are got. */
static int pmi_exchange_keep(struct pmi_exchange *x,
			     const struct slice *values, struct err *e)
{
	pmi_exchange_release_parts(x);
	x->parts = calloc(x->round.nnodes, sizeof(*x->parts));
	if (!x->parts)
		return err_no_memory(e, "MPI's exchange among nodes");
	for (x->node = 0; x->node < x->round.nnodes; x->node++) {
		struct pmi_exchange_part *p = &x->parts[x->node];
		struct slice value = values[x->node];

		buf_init(&p->bytes, PMI_EXCHANGE_VALUE_MAX);
		if (!value.data && x->node == x->round.node_rank)
			value = pmi_exchange_value(x);
		p->is_here = value.data != NULL;
		buf_put(&p->bytes, value.data, value.len);
		if (p->bytes.failed)
			return pmi_exchange_fail_part(x, p->bytes.failed, e);
	}
	return 0;
}

/* 1: values are of all nodes; 0: pieces are to be got. */
static int pmi_exchange_read(struct pmi_exchange *x, struct slice list,
			     struct slice *values, struct err *e)
{
	struct reader r;
	int has_all = 1;

	reader_init(&r, list);
	for (x->node = 0; x->node < x->round.nnodes; x->node++) {
		struct slice value = reader_slice(&r);
		struct slice *to = &values[x->node];

		if (r.bad || !value.len)
			return err_set(e, ERR_PROTOCOL, "node %u's part of "
				       "MPI's exchange %u is malformed",
				       x->node, x->number);
		*to = value.data[0] ? SLICE(NULL, 0)
				    : SLICE(value.data + 1, value.len - 1);
		has_all &= !value.data[0];
	}
	return has_all ? 1 : pmi_exchange_keep(x, values, e);
}

static void pmi_exchange_finish(struct pmi_exchange *x,
				const struct slice *values)
{
	x->step = EXCHANGE_IDLE;
	x->events->on_done(x, values);
}

/* All pieces of all nodes are here. */
static void pmi_exchange_finish_parts(struct pmi_exchange *x,
				      struct slice *values)
{
	struct pmi_exchange_part *parts = x->parts;

	for (uint32_t i = 0; i < x->round.nnodes; i++)
		values[i] = SLICE(parts[i].bytes.data ? parts[i].bytes.data
						      : "",
				  parts[i].bytes.len);
	x->parts = NULL; /* on_done may begin the next exchange */
	pmi_exchange_finish(x, values);
	for (uint32_t i = 0; i < x->round.nnodes; i++)
		buf_release(&parts[i].bytes);
	free(parts);
}

static void pmi_exchange_get_next(struct pmi_exchange *x, struct slice *values)
{
	for (x->node = 0; x->node < x->round.nnodes; x->node++)
		if (!x->parts[x->node].is_here) {
			x->piece = 0;
			pmi_exchange_step(x, EXCHANGE_GET_PIECE);
			return;
		}
	pmi_exchange_finish_parts(x, values);
}

/* Adds a piece. */
static int pmi_exchange_read_piece(struct pmi_exchange *x,
				   const struct wire_frame *f, struct err *e)
{
	struct pmi_exchange_part *p = &x->parts[x->node];
	struct wire_value v;
	int rc = wire_get_value(f, &v, e);

	if (rc < 0)
		return rc;
	if (!v.found)
		return pmi_exchange_lacks(x, e);
	buf_put(&p->bytes, v.value.data, v.value.len);
	if (p->bytes.failed)
		return pmi_exchange_fail_part(x, p->bytes.failed, e);
	p->is_here = v.value.len < PMI_EXCHANGE_PIECE;
	return 0;
}

/* The list, or a piece: goes on with what is here. */
static void pmi_exchange_go_on(struct pmi_exchange *x, int rc,
			       struct slice *values, const struct err *e)
{
	if (rc < 0) {
		pmi_exchange_fail(x, e);
	} else if (rc) {
		pmi_exchange_finish(x, values);
	} else if (x->step != EXCHANGE_GET_PIECE ||
		   x->parts[x->node].is_here) {
		pmi_exchange_get_next(x, values);
	} else {
		x->piece++;
		round_client_call(&x->client);
	}
	free(values);
}

static struct slice *pmi_exchange_new_values(struct pmi_exchange *x)
{
	struct slice *values = calloc(x->round.nnodes, sizeof(*values));
	struct err e = ERR_INIT;

	if (!values) {
		err_no_memory(&e, "MPI's exchange among nodes");
		pmi_exchange_fail(x, &e);
	}
	return values;
}

static void pmi_exchange_take_list(struct pmi_exchange *x, struct slice list)
{
	struct slice *values = pmi_exchange_new_values(x);
	struct err e = ERR_INIT;

	if (!values)
		return;
	if (x->offers)
		node_relay_pass_on(x->relays, list, x->comers);
	x->offers = 0;
	pmi_exchange_go_on(x, pmi_exchange_read(x, list, values, &e), values,
			   &e);
}

/* The reply to SHARE. */
static void pmi_exchange_on_share(struct pmi_exchange *x,
				  const struct wire_frame *f)
{
	struct wire_shared m;
	struct err e = ERR_INIT;

	if (wire_get_shared(f, &m, &e) < 0) {
		pmi_exchange_fail(x, &e);
		return;
	}
	x->comers = m.comers;
	if (m.values.count)
		pmi_exchange_take_list(x, m.values.bytes);
	else if (m.token.len == WIRE_TOKEN_SIZE &&
		 m.hash.len == WIRE_HASH_SIZE)
		pmi_exchange_fetch(x, &m);
	else
		pmi_exchange_step(x, EXCHANGE_LIST);
}

static void pmi_exchange_on_list(struct pmi_exchange *x,
				 const struct wire_frame *f)
{
	struct wire_list m;
	struct err e = ERR_INIT;

	if (wire_get_list(f, &m, &e) < 0)
		pmi_exchange_fail(x, &e);
	else
		pmi_exchange_take_list(x, m.items.bytes);
}

static void pmi_exchange_on_piece(struct pmi_exchange *x,
				  const struct wire_frame *f)
{
	struct slice *values = pmi_exchange_new_values(x);
	struct err e = ERR_INIT;

	if (values)
		pmi_exchange_go_on(x, pmi_exchange_read_piece(x, f, &e),
				   values, &e);
}

static void pmi_exchange_on_piece_set(struct pmi_exchange *x,
				      const struct wire_frame *f)
{
	int is_last = pmi_exchange_piece_size(x) < PMI_EXCHANGE_PIECE;

	(void)f;
	x->piece++;
	pmi_exchange_step(x, is_last ? EXCHANGE_SHARE : EXCHANGE_SET_PIECE);
}

static void pmi_exchange_on_reply(struct round_client *c,
				  const struct wire_frame *f)
{
	static void (*const takes[])(struct pmi_exchange *x,
				     const struct wire_frame *f) = {
		[EXCHANGE_SET_PIECE] = pmi_exchange_on_piece_set,
		[EXCHANGE_SHARE] = pmi_exchange_on_share,
		[EXCHANGE_LIST] = pmi_exchange_on_list,
		[EXCHANGE_GET_PIECE] = pmi_exchange_on_piece,
	};
	struct pmi_exchange *x = c->owner;

	takes[x->step](x, f);
}

static void pmi_exchange_on_failed(struct round_client *c,
				   const struct err *why)
{
	struct pmi_exchange *x = c->owner;

	x->events->on_failed(x, why);
}

static void pmi_exchange_on_closed(struct round_client *c)
{
	pmi_exchange_part_closed(c->owner);
}

static const struct round_client_events client_events = {
	.put = put,
	.on_reply = pmi_exchange_on_reply,
	.on_failed = pmi_exchange_on_failed,
	.on_closed = pmi_exchange_on_closed,
};

int pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
		       const struct pmi_exchange_round *round,
		       const struct pmi_exchange_events *events,
		       struct err *e)
{
	void *owner = x->owner;

	*x = (struct pmi_exchange){.owner = owner, .events = events,
				   .round = *round, .open_parts = 1};
	buf_init(&x->mine, 1 + PMI_EXCHANGE_VALUE_MAX);
	return round_client_start(&x->client, loop, &round->self,
				  "MPI's exchange among nodes", &client_events,
				  x, e);
}

void pmi_exchange_close(struct pmi_exchange *x)
{
	for (struct node_relay *r = x->relays; r; r = r->next)
		node_relay_close(r);
	if (x->fetch)
		node_fetch_close(x->fetch);
	x->fetch = NULL;
	round_client_close(&x->client);
}

/* pmi_exchange.c: SET, BARRIER and MULTI_GET; a GET for each piece. */
#include "launcher/pmi/pmi_exchange.h"

#include <errno.h>
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

static struct slice pmi_exchange_piece_key(const struct pmi_exchange *x,
					   char out[KEY_MAX])
{
	snprintf(out, KEY_MAX, "%s/%u/node %u/%u", x->round.name,
		 x->number, x->node, x->piece);
	return SLICE_STR(out);
}

/* 1: the value is set in pieces. */
static int pmi_exchange_is_large(const struct pmi_exchange *x)
{
	return x->mine.len > PMI_EXCHANGE_REPLY_MAX / x->round.nnodes;
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

static size_t pmi_exchange_piece_size(const struct pmi_exchange *x)
{
	size_t left = x->mine.len - (size_t)x->piece * PMI_EXCHANGE_PIECE;

	return left < PMI_EXCHANGE_PIECE ? left : PMI_EXCHANGE_PIECE;
}

static void pmi_exchange_put_set_piece(struct pmi_exchange *x, struct buf *out,
				       uint32_t id)
{
	char key[KEY_MAX];
	const struct wire_key_value m = {
		pmi_exchange_piece_key(x, key),
		SLICE(x->mine.data + (size_t)x->piece * PMI_EXCHANGE_PIECE,
		      pmi_exchange_piece_size(x))};

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
	else /* ends the connection; the next one sends it again */
		out->failed = rc;
	buf_release(&keys);
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
		[EXCHANGE_SET] = pmi_exchange_put_set,
		[EXCHANGE_SET_PIECE] = pmi_exchange_put_set_piece,
		[EXCHANGE_MEET] = pmi_exchange_put_meet,
		[EXCHANGE_GET] = pmi_exchange_put_get,
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

void pmi_exchange_begin(struct pmi_exchange *x, struct slice mine)
{
	struct err e = ERR_INIT;

	buf_reset(&x->mine);
	buf_put(&x->mine, mine.data, mine.len);
	x->number++;
	x->node = x->round.node_rank;
	x->piece = 0;
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
	pmi_exchange_step(x, pmi_exchange_is_large(x) ? EXCHANGE_SET_PIECE
						      : EXCHANGE_SET);
}

/* ---- replies ---- */

static void pmi_exchange_release_parts(struct pmi_exchange *x)
{
	for (uint32_t i = 0; x->parts && i < x->round.nnodes; i++)
		buf_release(&x->parts[i].bytes);
	free(x->parts);
	x->parts = NULL;
}

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
			value = SLICE(x->mine.data, x->mine.len);
		p->is_here = value.data != NULL;
		buf_put(&p->bytes, value.data, value.len);
		if (p->bytes.failed)
			return pmi_exchange_fail_part(x, p->bytes.failed, e);
	}
	return 0;
}

/* 1: values are of all nodes; 0: pieces are to be got. */
static int pmi_exchange_read(struct pmi_exchange *x,
			     const struct wire_frame *f, struct slice *values,
			     struct err *e)
{
	struct wire_list m;
	struct reader r;
	int has_all = 1, rc = wire_get_list(f, &m, e);

	if (rc < 0)
		return rc;
	reader_init(&r, m.items.bytes);
	for (x->node = 0; x->node < x->round.nnodes; x->node++) {
		int is_here = reader_u8(&r);

		values[x->node] = reader_slice(&r);
		if (m.items.count != x->round.nnodes)
			return pmi_exchange_lacks(x, e);
		if (!is_here)
			values[x->node] = SLICE(NULL, 0);
		has_all &= is_here;
	}
	if (r.bad)
		return err_set(e, ERR_PROTOCOL, "MULTI_GET: malformed");
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

/* The reply to GET, or to the GET of a piece. */
static void pmi_exchange_take(struct pmi_exchange *x,
			      const struct wire_frame *f)
{
	struct slice *values = calloc(x->round.nnodes, sizeof(*values));
	struct err e = ERR_INIT;
	int rc;

	if (!values)
		rc = err_no_memory(&e, "MPI's exchange among nodes");
	else if (x->step == EXCHANGE_GET)
		rc = pmi_exchange_read(x, f, values, &e);
	else
		rc = pmi_exchange_read_piece(x, f, &e);
	if (rc < 0) {
		x->step = EXCHANGE_IDLE;
		x->events->on_failed(x, &e);
	} else if (rc) {
		pmi_exchange_finish(x, values);
	} else if (x->step == EXCHANGE_GET || x->parts[x->node].is_here) {
		pmi_exchange_get_next(x, values);
	} else {
		x->piece++;
		round_client_call(&x->client);
	}
	free(values);
}

static void pmi_exchange_on_reply(struct round_client *c,
				  const struct wire_frame *f)
{
	struct pmi_exchange *x = c->owner;

	if (x->step == EXCHANGE_SET) {
		pmi_exchange_step(x, EXCHANGE_MEET);
	} else if (x->step == EXCHANGE_MEET) {
		pmi_exchange_step(x, EXCHANGE_GET);
	} else if (x->step != EXCHANGE_SET_PIECE) {
		pmi_exchange_take(x, f);
	} else if (pmi_exchange_piece_size(x) < PMI_EXCHANGE_PIECE) {
		pmi_exchange_step(x, EXCHANGE_MEET);
	} else {
		x->piece++;
		round_client_call(c);
	}
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
	pmi_exchange_release_parts(x);
	x->events->on_closed(x);
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
				   .round = *round};
	buf_init(&x->mine, PMI_EXCHANGE_VALUE_MAX);
	return round_client_start(&x->client, loop, &round->self,
				  "MPI's exchange among nodes", &client_events,
				  x, e);
}

void pmi_exchange_close(struct pmi_exchange *x)
{
	round_client_close(&x->client);
}

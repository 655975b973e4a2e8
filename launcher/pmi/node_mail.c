/* node_mail.c: ADD and SET for outgoing letters, WAIT, GET and DELETE for
 * incoming ones. */
#include "launcher/pmi/node_mail.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEY_MAX = 64 };

static const char purpose[] = "MPI's letters among nodes";

static void node_mail_advance(struct node_mail *m);

static struct slice node_mail_key(uint32_t node, int64_t number,
				  char out[KEY_MAX])
{
	if (number)
		snprintf(out, KEY_MAX, "MPI/mail/%u/%lld", node,
			 (long long)number);
	else
		snprintf(out, KEY_MAX, "MPI/mail/%u", node);
	return SLICE_STR(out);
}

/* ---- incoming letters ---- */

static void node_mail_put_in(struct round_client *c, struct buf *out,
			     uint32_t id)
{
	struct node_mail *m = c->owner;
	char text[KEY_MAX];
	const struct wire_key key = {
		node_mail_key(m->node_rank, m->in_number, text)};
	struct buf keys = BUF_INIT(2 * KEY_MAX);

	if (m->in_step != MAIL_WAIT) {
		wire_put_key(out, m->in_step == MAIL_GET ? WIRE_GET
							 : WIRE_DELETE,
			     WIRE_REQUEST, id, &key);
		return;
	}
	buf_put_slice(&keys, key.key);
	wire_put_wait(out, WIRE_WAIT, WIRE_REQUEST, id,
		      &(struct wire_wait){WIRE_NO_TIMEOUT,
					  {1, SLICE(keys.data, keys.len)}});
	buf_release(&keys);
}

static void node_mail_step_in(struct node_mail *m, enum node_mail_step step)
{
	m->in_number += step == MAIL_WAIT;
	m->in_step = step;
	round_client_call(&m->in);
}

static void node_mail_take(struct node_mail *m, const struct wire_frame *f)
{
	struct wire_value v;
	struct err e = ERR_INIT;

	if (wire_get_value(f, &v, &e) < 0)
		m->events->on_failed(m, &e);
	else if (v.found)
		m->events->on_letter(m, v.value);
}

static void node_mail_on_in(struct round_client *c, const struct wire_frame *f)
{
	struct node_mail *m = c->owner;

	if (m->in_step == MAIL_WAIT) {
		node_mail_step_in(m, MAIL_GET);
		return;
	}
	if (m->in_step == MAIL_DELETE) {
		node_mail_step_in(m, MAIL_WAIT);
		return;
	}
	node_mail_take(m, f);
	if (!m->is_closing)
		node_mail_step_in(m, MAIL_DELETE);
}

/* ---- outgoing letters ---- */

static void node_mail_put_out(struct round_client *c, struct buf *out,
			      uint32_t id)
{
	struct node_mail *m = c->owner;
	char text[KEY_MAX];

	if (m->out_step == MAIL_COUNT) {
		const struct wire_add add = {
			node_mail_key(m->first->node, 0, text), 1};

		wire_put_add(out, WIRE_ADD, WIRE_REQUEST, id, &add);
	} else {
		const struct wire_key_value set = {
			node_mail_key(m->first->node, m->out_number, text),
			SLICE(m->first->bytes.data, m->first->bytes.len)};

		wire_put_key_value(out, WIRE_SET, WIRE_REQUEST, id, &set);
	}
}

static void node_mail_drop_first(struct node_mail *m)
{
	struct node_mail_letter *l = m->first;

	m->first = l->next;
	if (!m->first)
		m->last = &m->first;
	buf_release(&l->bytes);
	free(l);
}

static void node_mail_on_out(struct round_client *c, const struct wire_frame *f)
{
	struct node_mail *m = c->owner;
	struct wire_int count;
	struct err e = ERR_INIT;

	if (m->out_step == MAIL_SET) {
		m->out_step = MAIL_IDLE;
		node_mail_drop_first(m);
		node_mail_advance(m);
	} else if (wire_get_int(f, &count, &e) < 0) {
		m->events->on_failed(m, &e);
	} else {
		m->out_number = count.value;
		m->out_step = MAIL_SET;
		round_client_call(c);
	}
}

static void node_mail_advance(struct node_mail *m)
{
	if (!m->first || m->out_step != MAIL_IDLE)
		return;
	m->out_step = MAIL_COUNT;
	round_client_call(&m->out);
}

/* ---- from start to end ---- */

static void node_mail_on_failed(struct round_client *c, const struct err *why)
{
	struct node_mail *m = c->owner;

	m->events->on_failed(m, why);
}

static void node_mail_on_closed(struct round_client *c)
{
	struct node_mail *m = c->owner;

	if (--m->open_clients)
		return;
	while (m->first)
		node_mail_drop_first(m);
	m->events->on_closed(m);
}

static const struct round_client_events in_events = {
	.put = node_mail_put_in,
	.on_reply = node_mail_on_in,
	.on_failed = node_mail_on_failed,
	.on_closed = node_mail_on_closed,
};

static const struct round_client_events out_events = {
	.put = node_mail_put_out,
	.on_reply = node_mail_on_out,
	.on_failed = node_mail_on_failed,
	.on_closed = node_mail_on_closed,
};

int node_mail_start(struct node_mail *m, uv_loop_t *loop,
		    const struct round_client_self *self, uint32_t node_rank,
		    const struct node_mail_events *events, void *owner,
		    struct err *e)
{
	int rc;

	*m = (struct node_mail){.owner = owner, .events = events,
				.node_rank = node_rank};
	m->last = &m->first;
	rc = round_client_start(&m->in, loop, self, purpose, &in_events, m, e);
	if (rc < 0)
		return rc;
	m->open_clients = 1;
	node_mail_step_in(m, MAIL_WAIT);
	return 0;
}

/* Only a node that sends letters has a second connection. */
static int node_mail_open_out(struct node_mail *m, struct err *e)
{
	int rc;

	if (m->has_out)
		return 0;
	rc = round_client_start(&m->out, m->in.loop, &m->in.self, purpose,
				&out_events, m, e);
	if (rc < 0)
		return rc;
	m->has_out = 1;
	m->open_clients++;
	return 0;
}

int node_mail_send(struct node_mail *m, uint32_t node, struct slice letter,
		   struct err *e)
{
	struct node_mail_letter *l;
	int rc = node_mail_open_out(m, e);

	if (rc < 0)
		return rc;
	l = malloc(sizeof(*l));
	if (!l)
		return err_no_memory(e, "%s", purpose);
	*l = (struct node_mail_letter){NULL, node, BUF_INIT(WIRE_VALUE_MAX)};
	buf_put(&l->bytes, letter.data, letter.len);
	if (l->bytes.failed) {
		buf_release(&l->bytes);
		free(l);
		return err_no_memory(e, "%s", purpose);
	}
	*m->last = l;
	m->last = &l->next;
	node_mail_advance(m);
	return 0;
}

void node_mail_close(struct node_mail *m)
{
	m->is_closing = 1;
	round_client_close(&m->in);
	if (m->has_out)
		round_client_close(&m->out);
}

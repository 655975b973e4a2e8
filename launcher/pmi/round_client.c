/* round_client.c: connects as a worker of the round, and again after a loss. */
#include "launcher/pmi/round_client.h"

#include "base/log.h"
#include "base/random.h"

enum { RETRY_MS = 100 };

static void round_client_connect(struct round_client *c);

static void round_client_send(struct round_client *c)
{
	if (!c->is_greeted || !c->is_waiting)
		return;
	c->events->put(c, async_client_out(&c->link), c->id);
	async_client_flush(&c->link);
}

void round_client_call(struct round_client *c)
{
	c->id++;
	c->is_waiting = 1;
	round_client_send(c);
}

/* ABORTED: the round is over, as the agent hears. */
static void round_client_fail(struct round_client *c, const struct err *why)
{
	c->is_waiting = 0;
	if (why->code != ERR_ABORTED && !c->is_closing)
		c->events->on_failed(c, why);
}

static void round_client_refused(struct round_client *c,
				 const struct wire_frame *f)
{
	struct err e = ERR_INIT;
	struct wire_error m;

	if (wire_get_error(f, &m, &e) == 0)
		err_set(&e, m.code, "%s: %.*s", c->purpose, SLICE_FMT(m.text));
	round_client_fail(c, &e);
}

static void round_client_on_frame(struct async_client *l,
				  const struct wire_frame *f)
{
	struct round_client *c = l->owner;

	if (f->kind == WIRE_ERROR_REPLY) {
		c->is_over = f->type == WIRE_HELLO;
		if (c->is_over)
			async_client_close(l);
		round_client_refused(c, f);
		return;
	}
	if (f->kind != WIRE_REPLY || f->id != c->id || !c->is_waiting)
		return;
	c->is_waiting = 0;
	c->events->on_reply(c, f);
}

static void round_client_on_open(struct async_client *l)
{
	struct round_client *c = l->owner;

	c->is_greeted = 1;
	round_client_send(c);
}

static void round_client_on_retry(uv_timer_t *t)
{
	struct round_client *c = t->data;

	log_debug("%s: calling the server again", c->purpose);
	round_client_connect(c);
}

/* The agent notices the loss as well, and decides how long it may last. */
static void round_client_on_lost(struct async_client *l, const struct err *why)
{
	struct round_client *c = l->owner;

	log_debug("%s: %s", c->purpose, why->text);
	c->is_over |= l->was_refused;
	async_client_close(l);
	if (l->was_refused)
		round_client_fail(c, why);
}

static void round_client_check_closed(struct round_client *c)
{
	if (c->is_closing && !c->link_open && !c->is_retry_open)
		c->events->on_closed(c);
}

static void round_client_on_link_closed(struct async_client *l)
{
	struct round_client *c = l->owner;

	c->link_open = c->is_greeted = 0;
	if (!c->is_closing && !c->is_over)
		uv_timer_start(&c->retry, round_client_on_retry, RETRY_MS, 0);
	round_client_check_closed(c);
}

static const struct async_client_events link_events = {
	.on_open = round_client_on_open,
	.on_frame = round_client_on_frame,
	.on_lost = round_client_on_lost,
	.on_closed = round_client_on_link_closed,
};

static void round_client_connect(struct round_client *c)
{
	const struct wire_hello hello = {
		.role = WIRE_WORKER, .job = SLICE_STR(c->self.job),
		.host = SLICE_STR(c->self.host), .round = c->self.round,
		.rank = c->self.rank, .session = c->session,
	};
	struct err e = ERR_INIT;

	if (async_client_start(&c->link, c->loop,
			       c->self.find_server(c->self.arg), &hello,
			       c->self.auth, &link_events, &e) < 0) {
		round_client_fail(c, &e);
		return;
	}
	c->link.owner = c;
	c->link_open = 1;
}

int round_client_start(struct round_client *c, uv_loop_t *loop,
		       const struct round_client_self *self,
		       const char *purpose,
		       const struct round_client_events *events, void *owner,
		       struct err *e)
{
	int rc;

	*c = (struct round_client){.owner = owner, .events = events,
				   .self = *self, .purpose = purpose,
				   .loop = loop};
	rc = random_bytes(&c->session, sizeof(c->session), e);
	if (rc < 0)
		return rc;
	uv_timer_init(loop, &c->retry);
	c->retry.data = c;
	c->is_retry_open = 1;
	round_client_connect(c);
	return 0;
}

static void round_client_on_retry_closed(uv_handle_t *h)
{
	struct round_client *c = h->data;

	c->is_retry_open = 0;
	round_client_check_closed(c);
}

void round_client_close(struct round_client *c)
{
	c->is_closing = 1;
	uv_close((uv_handle_t *)&c->retry, round_client_on_retry_closed);
	if (c->link_open)
		async_client_drop(&c->link);
}

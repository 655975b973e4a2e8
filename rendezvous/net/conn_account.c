/* conn_account.c: charges a connection's buffers (partial requests, unread
 * replies) to its job's account. */
#include <stdio.h>

#include "base/log.h"
#include "rendezvous/net/conn_internal.h"

static size_t conn_bytes_held(const struct conn *c)
{
	return c->fixed + c->in.cap + c->text.cap + c->out.cap +
	       (c->writing ? c->sending.cap : 0);
}

void conn_charge_to(struct conn *c, struct account *a, size_t fixed)
{
	struct account *before = c->account;

	if (a) {
		c->account = account_ref(a);
		account_connection(a, 1);
	} else {
		c->account = NULL;
	}
	if (before) {
		account_sub(before, c->counted);
		account_connection(before, -1);
		account_unref(before);
	}
	c->fixed = fixed;
	c->counted = a ? conn_bytes_held(c) : 0;
	account_add(a, c->counted);
}

/* The job or its tenant exceeds its limit: closes the connection, which has
 * just grown beyond CONN_SMALL. */
static void conn_fail_account(struct conn *c, const struct account *over)
{
	char why[ERR_TEXT_MAX];

	snprintf(why, sizeof(why),
		 "the rendezvous server holds %zu bytes for %.300s, and its "
		 "limit is %zu (%s of that ddprdzv): %zu of them are an "
		 "incomplete request of this client, or replies that it has "
		 "not read",
		 over->bytes, over->name, over->max, over->option, c->counted);
	if (c->events->on_bytes) {
		log_warn("disconnected a client of PyTorch's store: %s", why);
		conn_gone(c, why);
		return;
	}
	c->events->on_strange(c, why);
	conn_refuse(c, ERR_REFUSED, why);
	c->events->on_gone(c, why);
}

void conn_count(struct conn *c)
{
	const struct account *over;
	size_t was = c->counted, now;

	if (!c->account || c->state == CONN_CLOSED)
		return;
	now = conn_bytes_held(c);
	if (now == was)
		return;
	account_sub(c->account, was);
	account_add(c->account, now);
	c->counted = now;
	if (now < was || now - c->fixed <= CONN_SMALL || c->state != CONN_OPEN)
		return;
	over = account_over(c->account);
	if (over)
		conn_fail_account(c, over);
}

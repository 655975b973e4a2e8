/* conn_records.c: input on an encrypted connection: opens records and cuts
 * their text into frames. */
#include "rendezvous/net/conn_internal.h"

static void conn_fail_tampered(struct conn *c, const struct err *e)
{
	c->events->on_strange(c, e->text);
	conn_gone(c, e->text);
}

/* Opens a complete record: in place, or after the partial frame that it
 * continues. */
static void conn_read_record(struct conn *c, struct slice record)
{
	size_t n = record.len - CIPHER_EXTRA;
	int goes_on = c->text.len != 0;
	char *to = goes_on ? buf_reserve(&c->text, n)
			   : (char *)record.data + CIPHER_HEADER;
	struct slice text = SLICE(to, n);
	struct err e;

	err_init(&e);
	if (!to) {
		conn_gone(c, "the server is out of memory");
		return;
	}
	if (cipher_open(&c->cipher.in, record, to, &e) < 0) {
		conn_fail_tampered(c, &e);
		return;
	}
	if (goes_on) {
		c->text.len += n;
		text = SLICE(c->text.data, c->text.len);
	}
	conn_keep(c, &c->text, conn_take_frames(c, text), !goes_on);
}

struct slice conn_take_records(struct conn *c, struct slice in)
{
	struct err e;
	long n;

	err_init(&e);
	if (c->text.len) /* frames from before reading was stopped */
		conn_keep(c, &c->text, conn_take_frames(c,
			  SLICE(c->text.data, c->text.len)), 0);
	while (c->state == CONN_OPEN && !c->is_throttled) {
		n = cipher_size(&c->cipher.in, in, &e);
		if (n < 0)
			conn_fail_tampered(c, &e);
		if (n <= 0 || in.len < (size_t)n)
			break;
		conn_read_record(c, SLICE(in.data, (size_t)n));
		in.data += n;
		in.len -= (size_t)n;
	}
	return in;
}

void conn_encrypt(struct conn *c, const struct cipher *keys)
{
	c->cipher = *keys;
	c->plain = c->out.len;
}

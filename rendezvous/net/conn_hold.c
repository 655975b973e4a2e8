/* conn_hold.c: output that waits for a slow commit of the journal. Each
 * connection has one mark, for the one commit under way. */
#include "rendezvous/net/conn_internal.h"

void conn_unmark(struct conn *c)
{
	if (!c->held_pprev)
		return;
	*c->held_pprev = c->held_next;
	if (c->held_next)
		c->held_next->held_pprev = c->held_pprev;
	c->held_pprev = NULL;
}

void conn_unlink_stopped(struct conn *c)
{
	if (!c->stopped_pprev)
		return;
	*c->stopped_pprev = c->stopped_next;
	if (c->stopped_next)
		c->stopped_next->stopped_pprev = c->stopped_pprev;
	c->stopped_pprev = NULL;
}

void conn_hold_output(struct conn_pool *pool)
{
	struct conn *c;

	while ((c = pool->dirty)) {
		pool->dirty = c->dirty_next;
		c->is_dirty = 0;
		c->mark = c->out.len;
		c->held_next = pool->held;
		if (c->held_next)
			c->held_next->held_pprev = &c->held_next;
		c->held_pprev = &pool->held;
		pool->held = c;
	}
}

/* Sends the first n bytes; later output waits for another commit. */
static void conn_flush_held_before(struct conn *c, size_t n)
{
	struct buf rest = BUF_INIT(CONN_OUT_MAX);

	if (c->out.failed || c->writing)
		return; /* the flush of the later output sends everything */
	buf_put(&rest, c->out.data + n, c->out.len - n);
	if (!rest.failed) {
		c->out.len = n;
		conn_write_out(c);
		buf_put(&c->out, rest.data, rest.len);
	}
	buf_release(&rest);
}

void conn_release_held(struct conn_pool *pool)
{
	struct conn *c;

	while ((c = pool->held)) {
		conn_unmark(c);
		if (c->is_dirty)
			conn_flush_held_before(c, c->mark);
		else
			conn_flush(c);
	}
	while ((c = pool->stopped)) {
		conn_unlink_stopped(c);
		conn_resume(c);
	}
}

void conn_stop_reading(struct conn *c)
{
	if (c->state == CONN_CLOSED || c->stopped_pprev)
		return;
	conn_pause(c);
	c->stopped_next = c->pool->stopped;
	if (c->stopped_next)
		c->stopped_next->stopped_pprev = &c->stopped_next;
	c->stopped_pprev = &c->pool->stopped;
	c->pool->stopped = c;
}

/* conn_marked.c: output that waits until what it says is kept, where that takes
 * its time: one mark in each connection, for the one commit under way. */
#include "rendezvous/net/conn_parts.h"

void conn_unmark(struct conn *c)
{
	if (!c->marked_pprev)
		return;
	*c->marked_pprev = c->marked_next;
	if (c->marked_next)
		c->marked_next->marked_pprev = c->marked_pprev;
	c->marked_pprev = NULL;
}

void conn_go_on(struct conn *c)
{
	if (!c->stopped_pprev)
		return;
	*c->stopped_pprev = c->stopped_next;
	if (c->stopped_next)
		c->stopped_next->stopped_pprev = c->stopped_pprev;
	c->stopped_pprev = NULL;
}

void conn_mark(struct conn_pool *pool)
{
	struct conn *c;

	while ((c = pool->dirty)) {
		pool->dirty = c->dirty_next;
		c->is_dirty = 0;
		c->mark = c->out.len;
		c->marked_next = pool->marked;
		if (c->marked_next)
			c->marked_next->marked_pprev = &c->marked_next;
		c->marked_pprev = &pool->marked;
		pool->marked = c;
	}
}

/* More has come behind it, which waits for another commit. */
static void flush_before(struct conn *c, size_t n)
{
	struct buf rest = BUF_INIT(CONN_OUT_MAX);

	if (c->out.failed || c->writing)
		return; /* the flush of what came behind sees to it all */
	buf_put(&rest, c->out.data + n, c->out.len - n);
	if (!rest.failed) {
		c->out.len = n;
		conn_write_out(c);
		buf_put(&c->out, rest.data, rest.len);
	}
	buf_release(&rest);
}

void conn_flush_marked(struct conn_pool *pool)
{
	struct conn *c;

	while ((c = pool->marked)) {
		conn_unmark(c);
		if (c->is_dirty)
			flush_before(c, c->mark);
		else
			conn_flush(c);
	}
	while ((c = pool->stopped)) {
		conn_go_on(c);
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

/* conn_write.c: a connection's output on its way: at once as far as the kernel
 * takes it, the rest by libuv. */
#include <stdlib.h>
#include <sys/socket.h>

#include "rendezvous/conn_parts.h"

static void take_spare(struct conn *c)
{
	struct buf *spare = &c->pool->spare;

	c->out.data = spare->data;
	c->out.cap = spare->cap;
	spare->data = NULL;
	spare->cap = 0;
}

/* An idle connection keeps no memory for what it might say. */
void conn_give_spare(struct conn *c)
{
	struct buf *spare = &c->pool->spare;

	if (!spare->data && c->out.cap <= CONN_RESERVE) {
		spare->data = c->out.data;
		spare->cap = c->out.cap;
		c->out.data = NULL;
	}
	buf_release(&c->out);
}

void conn_pool_release(struct conn_pool *pool)
{
	free(pool->spare.data);
	pool->spare.data = NULL;
}

struct buf *conn_out(struct conn *c)
{
	if (!c->is_dirty && c->state != CONN_CLOSED) {
		c->is_dirty = 1;
		c->dirty_next = c->pool->dirty;
		c->pool->dirty = c;
	}
	/* one that is closed, or nobody's, has no pool to take from */
	if (!c->out.data && c->state != CONN_CLOSED)
		take_spare(c);
	return &c->out;
}

/* What is put out does not reach it any more. What it sent before is read
 * nevertheless, up to the end, which closes; and that end comes at once. A peer
 * that can still hear us would wait for our answers for ever. */
static void cannot_write(struct conn *c)
{
	uv_os_fd_t fd;

	c->broken = 1;
	if (!uv_is_closing((uv_handle_t *)&c->tcp) &&
	    uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0)
		shutdown(fd, SHUT_RDWR);
}

static void on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;

	c->writing = 0;
	buf_release(&c->sending);
	if (c->state == CONN_CLOSED)
		return;
	if (status < 0)
		cannot_write(c);
	conn_out(c);
	conn_flush_all(c->pool);
	conn_take_more(c);
}

/* What did not go out at once goes to libuv, which tells when it has. */
static void send_rest(struct conn *c, size_t sent)
{
	struct buf empty = c->sending;
	uv_buf_t b;

	c->sending = c->out;
	c->out = empty;
	buf_reset(&c->out);
	b = uv_buf_init(c->sending.data + sent,
			(unsigned)(c->sending.len - sent));
	c->write.data = c;
	c->writing = 1;
	if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &b, 1,
		     on_written) < 0) {
		c->writing = 0;
		cannot_write(c);
	}
}

void conn_write_out(struct conn *c)
{
	uv_buf_t b = uv_buf_init(c->out.data, (unsigned)c->out.len);
	int n;

	if (c->broken || c->writing || !c->out.len)
		return;
	c->pool->bytes_out += c->out.len;
	n = uv_try_write((uv_stream_t *)&c->tcp, &b, 1);
	if (n < 0 && n != UV_EAGAIN)
		cannot_write(c);
	else if (n == (int)c->out.len)
		buf_reset(&c->out);
	else
		send_rest(c, n < 0 ? 0 : (size_t)n);
}

/* conn_write.c: writes a connection's output: at once what the kernel takes,
 * the rest through libuv. Charges its buffers (partial requests, unread
 * replies) to its job's account. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/log.h"
#include "rendezvous/net/conn_internal.h"

static void conn_reuse_buffer(struct conn *c)
{
	struct buf *spare = &c->pool->spare;

	c->out.data = spare->data;
	c->out.cap = spare->cap;
	spare->data = NULL;
	spare->cap = 0;
}

/* Idle connections keep no output buffer. */
void conn_return_spare(struct conn *c)
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
	free(pool->sealed.data);
	pool->sealed.data = NULL;
}

struct buf *conn_out(struct conn *c)
{
	if (!c->is_dirty && c->state != CONN_CLOSED) {
		c->is_dirty = 1;
		c->dirty_next = c->pool->dirty;
		c->pool->dirty = c;
	}
	/* a closed or unattached connection must not take the pool's buffer */
	if (!c->out.data && c->state != CONN_CLOSED)
		conn_reuse_buffer(c);
	return &c->out;
}

/* Our output no longer reaches the peer. Shut down both directions: what the
 * peer sent before is still read, then the end of the stream closes the
 * connection. Otherwise a peer that still hears us would wait for replies for
 * ever. The kernel reports an error once, so the reader learns it from
 * c->broken. */
static void conn_cannot_write(struct conn *c, int rc)
{
	uv_os_fd_t fd;

	c->broken = rc;
	if (!uv_is_closing((uv_handle_t *)&c->tcp) &&
	    uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0)
		shutdown(fd, SHUT_RDWR);
}

static void conn_on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;

	c->writing = 0;
	buf_release(&c->sending);
	if (c->state == CONN_CLOSED)
		return;
	if (status < 0)
		conn_cannot_write(c, status);
	conn_out(c);
	conn_flush_all(c->pool);
	conn_take_more(c);
}

/* Passes the unsent rest to libuv, which calls conn_on_written. */
static void conn_send_rest(struct conn *c, struct buf *from, size_t sent)
{
	uv_buf_t b;
	int rc;

	c->sending = *from;
	buf_init(from, from->max);
	b = uv_buf_init(c->sending.data + sent,
			(unsigned)(c->sending.len - sent));
	c->write.data = c;
	c->writing = 1;
	rc = uv_write(&c->write, (uv_stream_t *)&c->tcp, &b, 1,
		      conn_on_written);
	if (rc < 0) {
		c->writing = 0;
		conn_cannot_write(c, rc);
	}
}

/* Writes all of from, and leaves it empty unless the connection breaks. */
static void conn_write_all(struct conn *c, struct buf *from)
{
	uv_buf_t b = uv_buf_init(from->data, (unsigned)from->len);
	int n = uv_try_write((uv_stream_t *)&c->tcp, &b, 1);

	c->pool->bytes_out += from->len;
	if (n < 0 && n != UV_EAGAIN)
		conn_cannot_write(c, n);
	else if (n == (int)from->len)
		buf_reset(from);
	else
		conn_send_rest(c, from, n < 0 ? 0 : (size_t)n);
}

/* Writes records from the buffer that all connections share. */
static void conn_write_sealed(struct conn *c, struct buf *sealed)
{
	if (sealed->failed)
		conn_cannot_write(c, UV_ENOMEM);
	else
		conn_write_all(c, sealed);
	buf_reset(sealed);
	if (sealed->cap > CONN_SEALED_MAX)
		buf_release(sealed);
}

static void conn_encrypt_out(struct conn *c, struct buf *sealed)
{
	size_t plain = c->plain < c->out.len ? c->plain : c->out.len;

	buf_put(sealed, c->out.data, plain);
	cipher_seal(&c->cipher.out, SLICE(c->out.data + plain,
					  c->out.len - plain), sealed);
	c->plain -= plain;
	buf_reset(&c->out);
}

static struct buf *conn_encrypted_size(struct conn_pool *pool)
{
	pool->sealed.max = CIPHER_SEALED_MAX(CONN_OUT_MAX);
	return &pool->sealed;
}

void conn_write_out(struct conn *c)
{
	struct buf *sealed;

	if (c->broken || c->writing || !c->out.len)
		return;
	if (!c->cipher.on) {
		conn_write_all(c, &c->out);
		return;
	}
	sealed = conn_encrypted_size(c->pool);
	conn_encrypt_out(c, sealed);
	conn_write_sealed(c, sealed);
}

/* A record must not be dropped or sent twice, so its unsent rest is queued. A
 * plain frame of which nothing was sent may be retried later. */
int conn_send_unheld(struct conn *c, struct slice frame)
{
	struct buf *sealed;
	uv_buf_t b;
	int n;

	if (c->state != CONN_OPEN || c->broken || c->writing || c->plain)
		return 0;
	if (c->cipher.on) {
		sealed = conn_encrypted_size(c->pool);
		cipher_seal(&c->cipher.out, frame, sealed);
		conn_write_sealed(c, sealed);
		return 1;
	}
	b = uv_buf_init((char *)frame.data, (unsigned)frame.len);
	n = uv_try_write((uv_stream_t *)&c->tcp, &b, 1);
	if (n == UV_EAGAIN || n == 0)
		return 0;
	if (n > 0)
		c->pool->bytes_out += (size_t)n;
	if (n < (int)frame.len)
		conn_cannot_write(c, n < 0 ? n : UV_EIO);
	return 1;
}

/* ---- output that waits for a slow commit of the journal ---- */

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

/* ---- the job's account ---- */

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

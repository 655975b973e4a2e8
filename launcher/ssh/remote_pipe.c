/* remote_pipe.c: reads, cuts into frames, and queues. */
#include "launcher/ssh/remote_link.h"

#include <unistd.h>

enum {
	PIECE = 64 << 10,
	TX_MAX = 256 << 20, /* senders stay far below it */
};

static void remote_pipe_on_handle_closed(uv_handle_t *h)
{
	struct remote_pipe *p = h->data;

	if (--p->open)
		return;
	buf_release(&p->rx);
	buf_release(&p->tx);
	buf_release(&p->sending);
	if (p->events->on_closed)
		p->events->on_closed(p);
}

static void remote_pipe_close_handle(uv_pipe_t *h)
{
	if (!uv_is_closing((uv_handle_t *)h))
		uv_close((uv_handle_t *)h, remote_pipe_on_handle_closed);
}

/* ---- out ---- */

static void remote_pipe_flush(struct remote_pipe *p);

static void remote_pipe_on_written(uv_write_t *w, int status)
{
	struct remote_pipe *p = w->data;

	buf_reset(&p->sending);
	if (status < 0)
		p->out_gone = 1;
	remote_pipe_flush(p);
	if (!remote_pipe_pending(p) && p->events->on_sent && !p->closing)
		p->events->on_sent(p);
}

static void remote_pipe_flush(struct remote_pipe *p)
{
	struct buf empty = p->sending;
	uv_buf_t b = uv_buf_init(p->tx.data, (unsigned)p->tx.len);
	int n;

	if (p->out_gone || p->closing)
		buf_reset(&p->tx);
	if (!p->tx.len || p->sending.len)
		return;
	n = uv_try_write((uv_stream_t *)&p->out, &b, 1);
	if (n < 0 && n != UV_EAGAIN) {
		p->out_gone = 1;
		buf_reset(&p->tx);
		return;
	}
	buf_consume(&p->tx, n < 0 ? 0 : (size_t)n);
	if (!p->tx.len)
		return;
	p->sending = p->tx;
	p->tx = empty;
	b = uv_buf_init(p->sending.data, (unsigned)p->sending.len);
	p->write.data = p;
	n = uv_write(&p->write, (uv_stream_t *)&p->out, &b, 1,
		     remote_pipe_on_written);
	if (n < 0) {
		buf_reset(&p->sending);
		p->out_gone = 1;
	}
}

static void remote_pipe_end(struct remote_pipe *p, const struct err *why);

/* Ends the pipe: the peer must not wait for a frame that never comes. */
static void remote_pipe_fail(struct remote_pipe *p, int rc)
{
	struct err e = ERR_INIT;

	err_set(&e, rc, "cannot send over ssh: %s", err_name(rc));
	p->out_gone = 1;
	buf_reset(&p->tx);
	remote_pipe_end(p, &e);
}

static void remote_pipe_send_queued(struct remote_pipe *p)
{
	if (p->tx.failed)
		remote_pipe_fail(p, p->tx.failed);
	else
		remote_pipe_flush(p);
}

void remote_pipe_send_bytes(struct remote_pipe *p, struct slice bytes)
{
	if (p->out_gone || p->closing)
		return;
	buf_put(&p->tx, bytes.data, bytes.len);
	remote_pipe_send_queued(p);
}

void remote_pipe_send(struct remote_pipe *p, uint8_t type, uint32_t host,
		      struct slice body)
{
	if (p->out_gone || p->closing)
		return;
	remote_frame_put(&p->tx, type, host, body);
	remote_pipe_send_queued(p);
}

void remote_pipe_send_buf(struct remote_pipe *p, uint8_t type, uint32_t host,
			  const struct buf *body)
{
	struct slice bytes;
	int rc = buf_bytes(body, &bytes);

	if (rc == 0)
		remote_pipe_send(p, type, host, bytes);
	else if (!p->out_gone && !p->closing)
		remote_pipe_fail(p, rc);
}

size_t remote_pipe_pending(const struct remote_pipe *p)
{
	return p->tx.len + p->sending.len;
}

void remote_pipe_hang_up(struct remote_pipe *p)
{
	p->out_gone = 1;
	remote_pipe_close_handle(&p->out);
}

/* ---- in ---- */

static void remote_pipe_end(struct remote_pipe *p, const struct err *why)
{
	if (p->ended || p->closing)
		return;
	p->ended = 1;
	uv_read_stop((uv_stream_t *)&p->in);
	p->events->on_end(p, why);
}

void remote_pipe_break(struct remote_pipe *p, const struct err *why)
{
	remote_pipe_end(p, why);
}

static void remote_pipe_cut(struct remote_pipe *p)
{
	struct remote_frame f;
	struct err e = ERR_INIT;
	size_t at = 0;
	long n = 1;

	if (p->cutting) /* on_frame has paused and resumed: no recursion */
		return;
	p->cutting = 1;
	while (p->framed && n > 0 && !p->ended && !p->closing && !p->paused) {
		n = remote_frame_cut(SLICE(p->rx.data + at, p->rx.len - at),
				     &f, &e);
		if (n > 0) {
			p->events->on_frame(p, &f);
			at += (size_t)n;
		}
	}
	p->cutting = 0;
	if (!p->closing)
		buf_consume(&p->rx, at);
	if (n < 0)
		remote_pipe_end(p, &e);
}

static void remote_pipe_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct remote_pipe *p = h->data;
	char *to = buf_reserve(&p->rx, PIECE);

	p->rx.failed = 0;
	*b = uv_buf_init(to, to ? PIECE : 0);
}

static void remote_pipe_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct remote_pipe *p = s->data;
	struct err e = ERR_INIT;

	if (n == 0)
		return;
	if (n < 0) {
		if (n != UV_EOF)
			err_set(&e, (int)n, "cannot read from ssh: %s",
				n == UV_ENOBUFS ? "out of memory"
						: err_name((int)n));
		remote_pipe_end(p, &e);
		return;
	}
	p->rx.len += (size_t)n;
	p->heard_ms = uv_now(s->loop);
	if (!p->framed)
		p->events->on_bytes(p);
	else
		remote_pipe_cut(p);
}

void remote_pipe_frames(struct remote_pipe *p)
{
	p->framed = 1;
	remote_pipe_cut(p);
}

void remote_pipe_pause(struct remote_pipe *p, int paused)
{
	struct err e = ERR_INIT;
	int rc;

	if (p->paused == paused || p->closing)
		return;
	p->paused = paused;
	if (p->ended)
		return;
	if (paused) {
		uv_read_stop((uv_stream_t *)&p->in);
		return;
	}
	p->heard_ms = uv_now(p->in.loop);
	remote_pipe_cut(p);
	if (p->paused || p->ended || p->closing)
		return;
	rc = loop_check(uv_read_start((uv_stream_t *)&p->in,
				      remote_pipe_on_alloc,
				      remote_pipe_on_read),
			&e, "cannot read from ssh");
	if (rc < 0)
		remote_pipe_end(p, &e);
}

/* ---- from start to end ---- */

int remote_pipe_open(struct remote_pipe *p, uv_loop_t *loop, int in, int out,
		     int framed)
{
	int rc;

	uv_pipe_init(loop, &p->in, 0);
	uv_pipe_init(loop, &p->out, 0);
	p->in.data = p->out.data = p;
	p->open = 2;
	p->framed = framed;
	p->heard_ms = uv_now(loop);
	buf_init(&p->rx, REMOTE_BODY_MAX + REMOTE_HEAD + 2 * PIECE);
	buf_init(&p->tx, TX_MAX);
	buf_init(&p->sending, TX_MAX);
	rc = uv_pipe_open(&p->in, in);
	if (rc < 0)
		close(in);
	if (rc == 0) {
		rc = uv_pipe_open(&p->out, out);
		if (rc == 0)
			rc = uv_read_start((uv_stream_t *)&p->in,
					   remote_pipe_on_alloc,
					   remote_pipe_on_read);
		else
			close(out);
	} else {
		close(out);
	}
	if (rc < 0)
		remote_pipe_close(p);
	return rc;
}

void remote_pipe_close(struct remote_pipe *p)
{
	if (p->closing)
		return;
	p->closing = 1;
	remote_pipe_close_handle(&p->in);
	remote_pipe_close_handle(&p->out);
}

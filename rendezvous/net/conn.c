/* conn.c: reads bytes and cuts them into frames, coalesces and writes output,
 * closes. A connection without a partial frame or unsent output has no buffer
 * of its own. */
#include "rendezvous/net/conn_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

enum { CACHE_LINE = 64 };

/* The fields from pool on, and the owner's first ones after the connection. */
enum { HOT_BYTES = sizeof(struct conn) - offsetof(struct conn, pool) + 96 };

static void conn_on_error(struct conn *c, int rc)
{
	char why[96];

	c->reset = rc == UV_ECONNRESET || rc == UV_ECONNABORTED;
	snprintf(why, sizeof(why), "its connection broke (%s)",
		 uv_strerror(rc));
	conn_gone(c, why);
}

/* The end of the stream: the peer's, or after an error that a write got.
 */
static void conn_on_eof(struct conn *c)
{
	if (c->broken && c->broken != UV_EPIPE)
		conn_on_error(c, c->broken);
	else
		conn_gone(c, c->cipher.on && c->in.len
				     ? "its connection closed inside a record"
				     : "its connection closed");
}

static void conn_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b);
static void conn_on_timer(uv_timer_t *t);

static void conn_set_timer(struct conn *c)
{
	uint64_t now = uv_now(c->pool->loop);
	uint64_t when = c->own_due < c->user_due ? c->own_due : c->user_due;

	/* A timer that fires early only checks the deadlines again, so it is
	 * not rearmed when a deadline moves back. */
	if (when >= c->armed || c->state == CONN_CLOSED)
		return;
	c->armed = when;
	uv_timer_start(&c->timer, conn_on_timer, when > now ? when - now : 0,
		       0);
}

void conn_due(struct conn *c, uint64_t when)
{
	c->user_due = when;
	conn_set_timer(c);
}

static int conn_is_open(const struct conn *c)
{
	return c->state == CONN_PREFACE || c->state == CONN_OPEN;
}

/* ---- closing ---- */

static void conn_on_handle_closed(uv_handle_t *h)
{
	struct conn *c = h->data;

	if (--c->handles)
		return;
	buf_release(&c->in);
	buf_release(&c->text);
	buf_release(&c->out);
	buf_release(&c->sending);
	cipher_wipe(&c->cipher);
	conn_charge_to(c, NULL, 0);
	c->events->on_closed(c);
}

static void conn_forget_dirty(struct conn *c)
{
	struct conn **p = &c->pool->dirty;

	if (!c->is_dirty)
		return;
	while (*p != c)
		p = &(*p)->dirty_next;
	*p = c->dirty_next;
	c->is_dirty = 0;
}

void conn_drop(struct conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	c->state = CONN_CLOSED;
	conn_forget_dirty(c);
	conn_unmark(c);
	conn_unlink_stopped(c);
	uv_close((uv_handle_t *)&c->tcp, conn_on_handle_closed);
	uv_close((uv_handle_t *)&c->timer, conn_on_handle_closed);
}

void conn_gone(struct conn *c, const char *why)
{
	int was_open = conn_is_open(c);

	conn_drop(c);
	if (was_open)
		c->events->on_gone(c, why);
}

/* The peer does not read, so it would not see an orderly close. A reset reaches
 * it at once, and drops what the kernel still holds for it. */
static void conn_reset(struct conn *c)
{
	uv_os_fd_t fd;

	if (uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0)
		sock_reset_at_close(fd);
}

static void conn_fail_unread(struct conn *c)
{
	conn_reset(c);
	conn_gone(c, "it does not read our messages");
}

static void conn_on_shutdown(uv_shutdown_t *req, int status)
{
	/* The peer's shutdown or the linger timer closes the connection. */
}

static void conn_shutdown_when_sent(struct conn *c)
{
	if (c->state != CONN_FINISHING || c->shut || c->writing || c->out.len)
		return;
	c->shut = 1;
	/* what we sent reaches the peer even after a close, unless unread bytes
	 * from it turn the close into a reset */
	if (c->broken || c->silent ||
	    uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp,
			conn_on_shutdown) < 0)
		conn_drop(c);
}

void conn_finish(struct conn *c)
{
	if (!conn_is_open(c))
		return;
	c->state = CONN_FINISHING;
	c->own_due = uv_now(c->pool->loop) + CONN_LINGER_MS;
	c->user_due = CONN_NEVER;
	conn_set_timer(c);
	conn_out(c); /* schedules a flush, which does the rest */
}

void conn_refuse(struct conn *c, int code, const char *text)
{
	struct wire_error m = {.code = code, .text = SLICE_STR(text)};

	if (!c->accepted) {
		log_debug("closed an unauthenticated connection: %s", text);
		conn_drop(c);
		return;
	}
	wire_put_error(conn_out(c), WIRE_HELLO, WIRE_ERROR_REPLY, 0, &m);
	conn_finish(c);
}

/* ---- out ---- */

void conn_flush(struct conn *c)
{
	if (c->out.failed) {
		conn_fail_unread(c);
		return;
	}
	conn_write_out(c);
	if (c->broken)
		buf_reset(&c->out);
	if (c->out.len == 0 && c->out.data)
		conn_return_spare(c);
	conn_shutdown_when_sent(c);
	conn_count(c);
}

/* Flushes dirty connections, or returns commit's result if they must wait. */
static int conn_flush_dirty(struct conn_pool *pool)
{
	int waits = pool->commit ? pool->commit(pool->commit_arg) : 0;
	struct conn *c;

	if (waits)
		return waits;
	while ((c = pool->dirty)) {
		pool->dirty = c->dirty_next;
		c->is_dirty = 0;
		conn_flush(c);
	}
	return 0;
}

void conn_flush_all(struct conn_pool *pool)
{
	conn_flush_dirty(pool);
}

/* ---- in ---- */

/* Stops reading from a peer that sends requests without reading replies: unread
 * replies cost memory and time that other clients need. */
static int conn_throttle(struct conn *c)
{
	if (!c->is_throttled && !c->broken && conn_is_open(c) && c->writing &&
	    c->out.len + c->sending.len > CONN_THROTTLE_MAX) {
		c->is_throttled = 1;
		uv_read_stop((uv_stream_t *)&c->tcp);
	}
	return c->is_throttled;
}

/* The peer sent more requests while throttled: it must read something within
 * CONN_DEAF_MS. */
static void conn_set_read_deadline(struct conn *c)
{
	c->unread = uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp);
	c->own_due = uv_now(c->pool->loop) + CONN_DEAF_MS;
	conn_set_timer(c);
}

static void conn_fail_protocol(struct conn *c, const struct err *e)
{
	char why[ERR_TEXT_MAX + 32];

	snprintf(why, sizeof(why), "it violated the protocol: %s", e->text);
	conn_refuse(c, e->code, e->text);
	c->events->on_gone(c, why);
}

static void conn_fail_version(struct conn *c, unsigned theirs)
{
	char why[160];

	snprintf(why, sizeof(why),
		 "it speaks version %u of the protocol, but this ddprdzv "
		 "version %d: install ddprun %s there",
		 theirs, WIRE_VERSION, DDP_VERSION);
	c->events->on_strange(c, why);
	conn_gone(c, why);
}

/* Returns 1 when the preface is complete and valid, 0 if more bytes are
 * needed. */
static int conn_read_preface(struct conn *c, struct slice *in)
{
	size_t n = in->len < WIRE_PREFACE_SIZE ? in->len : WIRE_PREFACE_SIZE;

	if (n > WIRE_MARK_SIZE && in->data[WIRE_MARK_SIZE] != WIRE_VERSION &&
	    !memcmp(in->data, wire_preface, WIRE_MARK_SIZE)) {
		conn_fail_version(c, (unsigned char)in->data[WIRE_MARK_SIZE]);
		return 0;
	}
	if (memcmp(in->data, wire_preface, n)) {
		log_debug("closed a connection that does not speak our "
			  "protocol");
		conn_gone(c, "it does not speak our protocol");
		return 0;
	}
	if (n < WIRE_PREFACE_SIZE)
		return 0;
	in->data += n;
	in->len -= n;
	c->state = CONN_OPEN;
	return 1;
}

/* Passes the bytes to on_bytes; returns what it left. */
static struct slice conn_handle_raw(struct conn *c, struct slice in)
{
	size_t n;

	c->wants = 0;
	n = c->events->on_bytes(c, in, &c->wants);
	return SLICE(in.data + n, in.len - n);
}

struct slice conn_take_frames(struct conn *c, struct slice in)
{
	struct wire_frame f;
	struct err e;
	int was_on = c->cipher.on;
	long n;

	err_init(&e);
	if (c->state == CONN_PREFACE && !conn_read_preface(c, &in))
		return in;
	while (c->state == CONN_OPEN && in.len) {
		n = wire_cut(in, c->accepted ? WIRE_BODY_MAX : WIRE_HELLO_MAX,
			     &f, &e);
		if (n < 0)
			conn_fail_protocol(c, &e);
		if (n <= 0)
			break;
		in.data += n;
		in.len -= (size_t)n;
		c->events->on_frame(c, &f);
		/* replies to a batch leave together, unless they are large */
		if (c->out.len > CONN_RESERVE_MAX && c->state == CONN_OPEN)
			conn_flush_all(c->pool);
		if (conn_throttle(c) || c->cipher.on != was_on)
			break;
	}
	return in;
}

void conn_keep(struct conn *c, struct buf *b, struct slice left, int elsewhere)
{
	if (!conn_is_open(c) || left.len == 0) {
		buf_release(b);
	} else if (elsewhere) {
		buf_put(b, left.data, left.len);
		if (b->failed)
			conn_gone(c, "the server is out of memory");
	} else {
		buf_consume(b, b->len - left.len);
	}
}

static struct slice conn_handle_some(struct conn *c, struct slice in)
{
	if (c->events->on_bytes)
		return conn_handle_raw(c, in);
	if (!c->cipher.on)
		in = conn_take_frames(c, in);
	return c->cipher.on ? conn_take_records(c, in) : in;
}

/* The number of bytes that the partial frame or record lacks. */
static size_t conn_bytes_wanted(const struct conn *c, struct slice in)
{
	struct reader r;

	if (c->events->on_bytes)
		return c->wants;
	if (in.len < WIRE_HEADER_SIZE || c->state != CONN_OPEN)
		return CONN_RESERVE;
	reader_init(&r, in);
	return WIRE_HEADER_SIZE + reader_u32(&r) - in.len;
}

static void conn_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct conn *c = h->data;
	struct slice in = SLICE(c->in.data, c->in.len);
	size_t want;

	/* libuv reads again, up to 32 times, after a read that filled its
	 * buffer; give the other connections their turn first */
	if (c->had_turn) {
		*b = uv_buf_init(NULL, 0);
		return;
	}
	/* the prefetch completes during the system call */
	for (size_t i = 0; i < HOT_BYTES; i += CACHE_LINE)
		__builtin_prefetch((char *)&c->pool + i, 1);
	if (in.len == 0 || c->state == CONN_FINISHING) {
		*b = uv_buf_init(c->pool->scratch, CONN_READ_MAX);
		return;
	}
	/* a partial record is small: copy it and read to the end of the copy */
	if (c->cipher.on && in.len <= CIPHER_RECORD_MAX) {
		memcpy(c->pool->scratch, in.data, in.len);
		*b = uv_buf_init(c->pool->scratch + in.len, CONN_READ_MAX);
		return;
	}
	/* A partial frame is completed in the connection's own buffer, which
	 * grows with the bytes received, not with the length that the peer
	 * announced. */
	want = conn_bytes_wanted(c, in);
	if (want > CONN_RESERVE_MAX)
		want = CONN_RESERVE_MAX;
	if (want < CONN_RESERVE)
		want = CONN_RESERVE;
	b->base = buf_reserve(&c->in, want);
	b->len = b->base ? c->in.cap - c->in.len : 0;
}

static void conn_handle_bytes(struct conn *c, const char *base, size_t n)
{
	const char *scratch = c->pool->scratch;
	int shared = base >= scratch &&
		     base <= scratch + CIPHER_RECORD_MAX;
	struct slice left;

	c->pool->bytes_in += n;
	c->in.len += n;
	left = SLICE(shared ? scratch : c->in.data, c->in.len);
	if (shared)
		buf_reset(&c->in);
	left = conn_handle_some(c, left);
	if (conn_throttle(c) && left.len + c->text.len)
		conn_set_read_deadline(c);
	conn_keep(c, &c->in, left, shared);
	if (!c->is_dirty) /* else the flush counts */
		conn_count(c);
}

static void conn_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct conn *c = s->data;
	int had_turn = c->had_turn;
	int waits;

	if (n == 0)
		return;
	c->had_turn = n > 0 && (size_t)n == b->len;
	if (had_turn && n == UV_ENOBUFS)
		return;
	if (n > 0 && conn_is_open(c)) {
		c->heard = uv_now(c->pool->loop);
		conn_handle_bytes(c, b->base, (size_t)n);
	} else if (n == UV_EOF) {
		conn_on_eof(c);
	} else if (n < 0) {
		conn_on_error(c, (int)n);
	}
	waits = conn_flush_dirty(c->pool);
	if (waits)
		conn_count(c);
	if (waits && (waits > 1 || c->out.len > CONN_RESERVE_MAX))
		conn_stop_reading(c);
}

/* The output that throttled c was sent, or never will be. Handles the bytes
 * that were read before, then reads again. */
void conn_take_more(struct conn *c)
{
	if (!c->is_throttled || c->writing)
		return;
	c->is_throttled = 0;
	if (conn_is_open(c))
		c->own_due = CONN_NEVER;
	if (conn_is_open(c) && c->in.len + c->text.len)
		conn_handle_bytes(c, c->in.data, 0);
	if (conn_flush_dirty(c->pool))
		conn_count(c);
	if (!conn_is_stopped(c))
		conn_resume(c);
}

/* ---- time ---- */

static void conn_is_unread(struct conn *c)
{
	if (uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp) < c->unread)
		conn_set_read_deadline(c);
	else
		conn_fail_unread(c);
}

static void conn_own_deadline(struct conn *c)
{
	char text[96];

	c->own_due = CONN_NEVER;
	if (c->is_throttled && conn_is_open(c)) {
		conn_is_unread(c);
		return;
	}
	if (c->state == CONN_FINISHING && (c->is_dirty || c->held_pprev)) {
		c->own_due = uv_now(c->pool->loop) + CONN_LINGER_MS;
		conn_set_timer(c); /* the journal must keep its last output
				    * first */
		return;
	}
	if (c->state != CONN_OPEN) { /* no preface, or lingered long enough */
		conn_gone(c, "it sent nothing");
		return;
	}
	snprintf(text, sizeof(text), "no HELLO within %.1f s",
		 (double)c->pool->hello_ms / 1e3);
	conn_refuse(c, ERR_TIMEOUT, text);
	c->events->on_gone(c, text);
}

static void conn_on_timer(uv_timer_t *t)
{
	struct conn *c = t->data;
	uint64_t now = uv_now(c->pool->loop);

	c->armed = CONN_NEVER;
	if (c->own_due <= now)
		conn_own_deadline(c);
	if (c->user_due <= now && conn_is_open(c)) {
		c->user_due = CONN_NEVER;
		c->events->on_due(c);
	}
	conn_set_timer(c);
	conn_flush_all(c->pool);
}

/* ---- begin ---- */

int conn_open(struct conn *c, struct conn_pool *pool,
	      const struct conn_events *events, size_t in_max, int fd)
{
	int rc;

	memset(c, 0, sizeof(*c));
	c->pool = pool;
	c->events = events;
	c->own_due = c->user_due = c->armed = CONN_NEVER;
	buf_init(&c->in, in_max + CONN_RESERVE_MAX);
	buf_init(&c->text, in_max + CIPHER_TEXT_MAX);
	buf_init(&c->out, CONN_OUT_MAX);
	buf_init(&c->sending, CIPHER_SEALED_MAX(CONN_OUT_MAX));
	c->tcp.data = c->timer.data = c;
	uv_tcp_init(pool->loop, &c->tcp);
	uv_timer_init(pool->loop, &c->timer);
	c->handles = 2;
	rc = uv_tcp_open(&c->tcp, fd);
	if (rc < 0)
		close(fd);
	else
		rc = uv_read_start((uv_stream_t *)&c->tcp, conn_on_alloc,
				   conn_on_read);
	if (rc < 0) {
		conn_drop(c);
		return rc;
	}
	uv_tcp_nodelay(&c->tcp, 1);
	c->heard = uv_now(pool->loop);
	if (events->on_bytes) {
		c->state = CONN_OPEN;
		return 0;
	}
	c->own_due = c->heard + pool->hello_ms;
	conn_set_timer(c);
	return 0;
}

void conn_pause(struct conn *c)
{
	uv_read_stop((uv_stream_t *)&c->tcp);
}

void conn_resume(struct conn *c)
{
	if (c->state == CONN_CLOSED || c->is_throttled ||
	    uv_read_start((uv_stream_t *)&c->tcp, conn_on_alloc, conn_on_read) <
		    0)
		return; /* already being read, or at its end */
}

int conn_addrs(const struct conn *c, struct sock_addr *peer,
	       struct sock_addr *own)
{
	int here = sizeof(own->ss), there = sizeof(peer->ss);
	int rc = uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&peer->ss,
				    &there);

	if (rc == 0)
		rc = uv_tcp_getsockname(&c->tcp, (struct sockaddr *)&own->ss,
					&here);
	peer->len = (socklen_t)there;
	own->len = (socklen_t)here;
	if (rc < 0)
		return rc;
	sock_addr_unmap(peer);
	sock_addr_unmap(own);
	return 0;
}

void conn_proven(struct conn *c)
{
	c->own_due = CONN_NEVER;
}

void conn_accept(struct conn *c)
{
	c->accepted = 1;
	conn_proven(c);
}

/* async_client.c: the agent's connection: connect, greet, cut frames, write,
 * close. Never blocks, never reconnects: that is its owner's decision. */
#include "rendezvous/client/async_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "rendezvous/auth/credential.h"

enum { ASYNC_MOVING, ASYNC_CONNECTING, ASYNC_GREETING, ASYNC_PROVING,
       ASYNC_OPEN, ASYNC_LOST, ASYNC_CLOSING, ASYNC_CLOSED };

enum { RESERVE = 4096 };

static void async_on_handle_closed(uv_handle_t *h)
{
	struct async_client *l = h->data;

	l->state = ASYNC_CLOSED;
	buf_release(&l->in);
	buf_release(&l->raw);
	buf_release(&l->out);
	buf_release(&l->sealed);
	buf_release(&l->sending);
	handshake_release(&l->hand);
	l->events->on_closed(l);
}

static int async_is_up(const struct async_client *l)
{
	return l->state <= ASYNC_OPEN;
}

static void async_forget_munge(struct async_client *l)
{
	if (l->munge)
		credential_thread_forget(l->munge);
	l->munge = NULL;
}

/* Notifies the owner once; it still calls async_client_close. */
static void async_fail(struct async_client *l, const struct err *why)
{
	if (!async_is_up(l))
		return;
	l->state = ASYNC_LOST;
	async_forget_munge(l);
	if (!l->handle_gone)
		uv_read_stop((uv_stream_t *)&l->tcp);
	l->events->on_lost(l, why);
}

static void async_fail_text(struct async_client *l, int code, const char *what)
{
	char at[SOCK_TEXT_MAX];
	struct err e = ERR_INIT;

	err_set(&e, code, "rendezvous server %s: %s",
		sock_addr_text(&l->addr, at), what);
	async_fail(l, &e);
}

static void async_fail_code(struct async_client *l, int rc, const char *what)
{
	char text[160];

	snprintf(text, sizeof(text), "%s (%s)", what, uv_strerror(rc));
	async_fail_text(l, rc, text);
}

static void async_close_now(struct async_client *l)
{
	if (l->handle_gone)
		async_on_handle_closed((uv_handle_t *)&l->tcp);
	else if (!uv_is_closing((uv_handle_t *)&l->tcp))
		uv_close((uv_handle_t *)&l->tcp, async_on_handle_closed);
}

/* ---- out ---- */

/* Later output would not arrive. The reader still gets what the server sent
 * before, then the end, whatever the kernel thinks of the connection. */
static void async_cannot_write(struct async_client *l, int rc)
{
	uv_os_fd_t fd;

	l->unsent = rc;
	buf_reset(&l->out);
	if (uv_fileno((uv_handle_t *)&l->tcp, &fd) == 0)
		shutdown(fd, SHUT_RDWR);
}

static void async_on_written(uv_write_t *req, int status)
{
	struct async_client *l = req->data;

	buf_reset(&l->sending);
	if (status < 0 && l->state == ASYNC_CLOSING)
		async_close_now(l);
	else if (status < 0 && status != UV_ECANCELED)
		async_cannot_write(l, status);
	if (status == 0)
		async_client_flush(l);
}

struct buf *async_client_out(struct async_client *l)
{
	return &l->out;
}

static void async_write_rest(struct async_client *l, struct buf *from,
			     size_t sent)
{
	struct buf empty = l->sending;
	uv_buf_t b;
	int rc;

	empty.max = from->max;
	l->sending = *from;
	*from = empty;
	b = uv_buf_init(l->sending.data + sent,
			(unsigned)(l->sending.len - sent));
	l->write.data = l;
	rc = uv_write(&l->write, (uv_stream_t *)&l->tcp, &b, 1,
		      async_on_written);
	if (rc < 0) {
		buf_reset(&l->sending);
		async_cannot_write(l, rc);
	}
}

/* Sends all of from and empties it. */
static void async_write_all(struct async_client *l, struct buf *from)
{
	uv_buf_t b = uv_buf_init(from->data, (unsigned)from->len);
	int n = uv_try_write((uv_stream_t *)&l->tcp, &b, 1);

	if (n >= 0 && (size_t)n == from->len)
		buf_reset(from);
	else if (n >= 0 || n == UV_EAGAIN)
		async_write_rest(l, from, n < 0 ? 0 : (size_t)n);
	else
		async_cannot_write(l, n);
}

static void async_write_sealed(struct async_client *l)
{
	struct buf *b = &l->sealed;

	buf_reset(b);
	cipher_seal(&l->hand.cipher.out, SLICE(l->out.data, l->out.len), b);
	buf_reset(&l->out);
	if (b->failed)
		async_cannot_write(l, UV_ENOMEM);
	else
		async_write_all(l, b);
}

void async_client_flush(struct async_client *l)
{
	if (l->out.failed) {
		async_fail_text(l, l->out.failed,
				"it does not read our messages");
		return;
	}
	/* send nothing before the server's proof, then all of it at once */
	if (l->state < ASYNC_OPEN || l->sending.len)
		return;
	if (l->out.len && l->state != ASYNC_LOST && l->state != ASYNC_CLOSED) {
		if (l->hand.cipher.on)
			async_write_sealed(l);
		else
			async_write_all(l, &l->out);
	}
	if (l->state == ASYNC_CLOSING && !l->sending.len)
		async_close_now(l);
}

void async_client_close(struct async_client *l)
{
	int was = l->state;

	if (was == ASYNC_CLOSING || was == ASYNC_CLOSED)
		return;
	l->state = ASYNC_CLOSING;
	async_forget_munge(l);
	if (was < ASYNC_OPEN || was == ASYNC_LOST) {
		async_close_now(l);
		return;
	}
	uv_read_stop((uv_stream_t *)&l->tcp);
	async_client_flush(l);
}

void async_client_drop(struct async_client *l)
{
	if (async_is_up(l))
		l->state = ASYNC_LOST;
	async_client_close(l);
}

int async_client_is_connected(const struct async_client *l)
{
	return l->state > ASYNC_CONNECTING;
}

int async_client_munge_is_late(const struct async_client *l, struct err *e)
{
	return l->munge ? credential_is_late(e) : 0;
}

int async_client_is_checked(const struct async_client *l)
{
	return l->state == ASYNC_PROVING && !l->munge &&
	       l->hand.auth->methods == WIRE_BY_MUNGE;
}

/* ---- in ---- */

/* Sends a few bytes, which a new socket always accepts. */
static void async_send(struct async_client *l, const char *data, size_t size)
{
	uv_buf_t b = uv_buf_init((char *)data, (unsigned)size);
	int n = uv_try_write((uv_stream_t *)&l->tcp, &b, 1);

	if (n != (int)size)
		async_fail_code(l, n < 0 ? n : UV_EAGAIN,
				"the connection broke");
}

static void async_on_munge(void *owner, const struct credential_question *q);

/* Asks munge in a thread; reads nothing until it has answered. */
static void async_ask_munge(struct async_client *l)
{
	struct err e = ERR_INIT;
	int rc = credential_thread_start(&l->munge, l->loop, &l->hand.question,
					 async_on_munge, l, &e);

	if (rc < 0) {
		async_fail(l, &e);
		return;
	}
	log_debug("asking munge for %s", l->state == ASYNC_GREETING ?
		  "a credential" : "the server's user");
	uv_read_stop((uv_stream_t *)&l->tcp);
}

static void async_read_greeting(struct async_client *l)
{
	struct buf hello = BUF_INIT(WIRE_PREFACE_SIZE + WIRE_HEADER_SIZE +
				    WIRE_HELLO_MAX);
	struct err e = ERR_INIT;
	long n;

	if (!l->speaks)
		buf_put(&hello, wire_preface, WIRE_PREFACE_SIZE);
	n = handshake_greeted(&l->hand, SLICE(l->in.data, l->in.len), &hello,
			      &e);
	if (n > 0) {
		buf_consume(&l->in, (size_t)n);
		l->state = ASYNC_PROVING;
		async_send(l, hello.data, hello.len);
	} else if (n == -EAGAIN) {
		async_ask_munge(l);
	} else if (n < 0) {
		if (l->hand.other_version && !l->speaks)
			async_send(l, wire_preface, WIRE_PREFACE_SIZE);
		async_fail_text(l, (int)n, e.text);
	}
	buf_release(&hello);
}

static void async_connect_now(struct async_client *l);

/* The old handle's memory is reused for the next connection. */
static void async_on_left(uv_handle_t *h)
{
	struct async_client *l = h->data;

	if (l->state == ASYNC_CLOSING) {
		async_on_handle_closed(h);
		return;
	}
	buf_reset(&l->in);
	buf_reset(&l->raw);
	async_connect_now(l);
}

static void async_reconnect(struct async_client *l,
			    const struct endpoint *there)
{
	struct sock_addr to;
	char at[SOCK_TEXT_MAX];
	struct err e = ERR_INIT;

	if (!sock_addr_number(there->host, there->port, &to)) {
		async_fail_text(l, ERR_PROTOCOL,
				"it gave no numeric address of the server");
		return;
	}
	if (l->moved) {
		err_set(&e, ERR_NOT_YET, "rendezvous server %s: it is "
			"no longer the job's server",
			sock_addr_text(&l->addr, at));
		async_fail(l, &e);
		return;
	}
	if (handshake_anew(&l->hand, &e) < 0) {
		async_fail(l, &e);
		return;
	}
	l->moved = 1;
	l->addr = to;
	l->state = ASYNC_MOVING;
	uv_close((uv_handle_t *)&l->tcp, async_on_left);
}

/* 1: it is not the job's server; the client reconnects or has failed. */
static int async_is_moved(struct async_client *l,
			  const struct wire_frame *refusal)
{
	struct endpoint there;
	struct err e = ERR_INIT;
	int rc = handshake_elsewhere(refusal, &there, &e);

	if (rc == ERR_MOVED)
		async_reconnect(l, &there);
	else if (rc == ERR_PROTOCOL)
		async_fail_text(l, rc, e.text);
	else if (rc < 0)
		async_fail(l, &e);
	return rc != 0;
}

/* Decrypts what has arrived. A forged record ends the connection, after the
 * frames before it. */
static void async_open_records(struct async_client *l, struct err *e)
{
	int rc = cipher_take(&l->hand.cipher.in, &l->raw, &l->in, e);

	if (rc == 0)
		e->code = 0;
}

/* Everything after WELCOME, which ends at `used`, is records. */
static void async_begin_records(struct async_client *l, size_t used,
				struct err *e)
{
	buf_put(&l->raw, l->in.data + used, l->in.len - used);
	l->in.len = used;
	if (l->raw.failed)
		err_no_memory(e, "the connection to the server");
	else
		async_open_records(l, e);
}

/* The server accepts us or refuses us; or its proof fails. */
static void async_read_welcome(struct async_client *l,
			       const struct wire_frame *f, size_t used,
			       struct err *bad)
{
	struct wire_frame refusal;
	struct err e = ERR_INIT;
	int rc = handshake_welcomed(&l->hand, f, &refusal, &e);

	if (rc == -EAGAIN) {
		async_ask_munge(l);
		return;
	}
	if (rc < 0) {
		async_fail_text(l, rc, e.text);
		return;
	}
	if (rc == 0 && async_is_moved(l, &refusal))
		return;
	l->state = ASYNC_OPEN;
	if (l->hand.cipher.on)
		async_begin_records(l, used, bad);
	if (rc == 0)
		l->events->on_frame(l, &refusal);
	else if (l->events->on_open)
		l->events->on_open(l);
	if (rc > 0 && l->state == ASYNC_OPEN)
		async_client_flush(l);
}

/* An error with id 0 is the server's last word. */
static void async_handle_frame(struct async_client *l,
			       const struct wire_frame *f)
{
	struct wire_error m;
	char what[ERR_TEXT_MAX];

	if (f->kind == WIRE_ERROR_REPLY && f->id == 0 &&
	    wire_get_error(f, &m, NULL) == 0) {
		snprintf(what, sizeof(what), "%.*s", SLICE_FMT(m.text));
		l->was_refused = 1;
		async_fail_text(l, m.code, what);
		return;
	}
	l->events->on_frame(l, f);
}

static void async_handle_frames(struct async_client *l, struct err *bad)
{
	struct wire_frame f;
	struct err e = ERR_INIT;
	struct slice in;
	size_t used = 0;
	long n;

	while (l->state == ASYNC_PROVING || l->state == ASYNC_OPEN) {
		in = SLICE(l->in.data + used, l->in.len - used);
		n = wire_cut(in, l->state == ASYNC_OPEN ? WIRE_BODY_MAX
						       : WIRE_WELCOME_MAX,
			     &f, &e);
		if (n < 0)
			async_fail_text(l, ERR_PROTOCOL, e.text);
		if (n <= 0)
			break;
		if (l->state == ASYNC_PROVING)
			async_read_welcome(l, &f, used + (size_t)n, bad);
		else
			async_handle_frame(l, &f);
		if (l->munge)
			break;
		used += (size_t)n;
	}
	if (async_is_up(l))
		buf_consume(&l->in, used);
	if (bad->code)
		async_fail_text(l, bad->code, bad->text);
}

static void async_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct async_client *l = h->data;
	struct buf *in = l->hand.cipher.on ? &l->raw : &l->in;

	b->base = buf_reserve(in, RESERVE);
	b->len = b->base ? in->cap - in->len : 0;
}

static void async_on_eof(struct async_client *l)
{
	char what[ERR_TEXT_MAX];

	if (l->state == ASYNC_PROVING) {
		handshake_explain(&l->hand, what, sizeof(what));
		async_fail_text(l, ERR_REFUSED, what);
	} else if (l->unsent) {
		async_fail_code(l, l->unsent, "the connection broke");
	} else {
		async_fail_text(l, ERR_REMOTE,
			l->raw.len ? "it closed the connection inside a record"
			: l->state == ASYNC_OPEN
				? "it closed the connection"
				: "it closed the connection without a "
				  "greeting; is it a ddprdzv of this version?");
	}
}

static void async_handle_bytes(struct async_client *l, size_t n)
{
	struct err bad = ERR_INIT;

	if (l->hand.cipher.on) {
		l->raw.len += n;
		async_open_records(l, &bad);
	} else {
		l->in.len += n;
	}
	if (l->state == ASYNC_GREETING)
		async_read_greeting(l);
	async_handle_frames(l, &bad);
}

static void async_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct async_client *l = s->data;

	if (n > 0)
		async_handle_bytes(l, (size_t)n);
	else if (n == UV_EOF)
		async_on_eof(l);
	else if (n < 0)
		async_fail_code(l, (int)n, "the connection broke");
}

/* munge has answered: handle the frame again, which is still in l->in. */
static void async_on_munge(void *owner, const struct credential_question *q)
{
	struct async_client *l = owner;
	struct err bad = ERR_INIT;
	int rc = 0;

	l->munge = NULL;
	handshake_answer(&l->hand, q);
	if (l->state == ASYNC_GREETING)
		async_read_greeting(l);
	else
		async_handle_frames(l, &bad);
	if ((l->state == ASYNC_PROVING || l->state == ASYNC_OPEN) && !l->munge)
		rc = uv_read_start((uv_stream_t *)&l->tcp, async_on_alloc,
				   async_on_read);
	if (rc < 0)
		async_fail_text(l, rc, uv_strerror(rc));
}

/* ---- begin ---- */

/* The kernel refused at once (no route, no descriptors): report it from the
 * loop, as if it had refused later. */
static void async_on_refused_closed(uv_handle_t *h)
{
	struct async_client *l = h->data;
	int was_closed = l->state == ASYNC_CLOSING;

	l->handle_gone = 1;
	if (was_closed)
		async_on_handle_closed(h);
	else
		async_fail_code(l, l->refused, "cannot connect");
}

static void async_on_connect(uv_connect_t *req, int status)
{
	struct async_client *l = req->data;
	int rc = status;
	uv_os_fd_t fd;

	if (l->state != ASYNC_CONNECTING)
		return;
	if (rc == 0 && uv_fileno((uv_handle_t *)&l->tcp, &fd) == 0 &&
	    sock_is_self_connected(fd))
		rc = UV_ECONNREFUSED;
	if (rc == 0) {
		uv_tcp_nodelay(&l->tcp, 1);
		l->state = ASYNC_GREETING;
		rc = uv_read_start((uv_stream_t *)&l->tcp, async_on_alloc,
				   async_on_read);
	}
	if (rc < 0)
		async_fail_code(l, rc, "cannot connect");
	else if (l->speaks)
		async_send(l, wire_preface, WIRE_PREFACE_SIZE);
}

void async_client_send_preface(struct async_client *l)
{
	if (l->speaks || l->state > ASYNC_GREETING)
		return;
	l->speaks = 1;
	if (l->state == ASYNC_GREETING)
		async_send(l, wire_preface, WIRE_PREFACE_SIZE);
}

static void async_connect_now(struct async_client *l)
{
	l->state = ASYNC_CONNECTING;
	uv_tcp_init(l->loop, &l->tcp);
	l->tcp.data = l->connect.data = l;
	l->refused = uv_tcp_connect(&l->connect, &l->tcp,
				    (const struct sockaddr *)&l->addr.ss,
				    async_on_connect);
	if (l->refused < 0)
		uv_close((uv_handle_t *)&l->tcp, async_on_refused_closed);
}

int async_client_start(struct async_client *l, uv_loop_t *loop,
		       const struct sock_addr *addr,
		       const struct wire_hello *hello, const struct auth *auth,
		       const struct async_client_events *events, struct err *e)
{
	int rc;

	memset(l, 0, sizeof(*l));
	l->events = events;
	l->addr = *addr;
	buf_init(&l->raw, 4 * (size_t)CIPHER_RECORD_MAX);
	buf_init(&l->in, WIRE_HEADER_SIZE + WIRE_BODY_MAX + RESERVE +
		 l->raw.max);
	buf_init(&l->out, 2 * (size_t)WIRE_BODY_MAX);
	buf_init(&l->sealed, CIPHER_SEALED_MAX(l->out.max));
	buf_init(&l->sending, l->sealed.max);
	rc = handshake_init(&l->hand, auth, hello, e);
	if (rc < 0) {
		handshake_release(&l->hand);
		return rc;
	}
	l->hand.defers = 1;
	l->loop = loop;
	async_connect_now(l);
	return 0;
}

/* http_server.c: runs libmicrohttpd on the loop, without a thread. */
#include "rendezvous/net/http_server.h"

#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/dynlib.h"

enum {
	CONNECTIONS = 16,
	PATIENCE_S = 10, /* the longest that a connection may last */
	SWEEP_MS = 1000,
	PAGE_MAX = 64 << 20,
};

struct mhd {
	__typeof__(MHD_start_daemon) *start;
	__typeof__(MHD_stop_daemon) *stop;
	__typeof__(MHD_get_daemon_info) *info;
	__typeof__(MHD_run) *run;
	__typeof__(MHD_get_timeout) *timeout;
	__typeof__(MHD_create_response_from_buffer) *response;
	__typeof__(MHD_add_response_header) *header;
	__typeof__(MHD_queue_response) *queue;
	__typeof__(MHD_destroy_response) *destroy;
	__typeof__(MHD_get_connection_info) *connection;
	__typeof__(MHD_lookup_connection_value) *value;
};

static struct mhd mhd;

static const struct dynlib_symbol rows[] = {
	DYNLIB_SYMBOL(struct mhd, start, "MHD_start_daemon"),
	DYNLIB_SYMBOL(struct mhd, stop, "MHD_stop_daemon"),
	DYNLIB_SYMBOL(struct mhd, info, "MHD_get_daemon_info"),
	DYNLIB_SYMBOL(struct mhd, run, "MHD_run"),
	DYNLIB_SYMBOL(struct mhd, timeout, "MHD_get_timeout"),
	DYNLIB_SYMBOL(struct mhd, response, "MHD_create_response_from_buffer"),
	DYNLIB_SYMBOL(struct mhd, header, "MHD_add_response_header"),
	DYNLIB_SYMBOL(struct mhd, queue, "MHD_queue_response"),
	DYNLIB_SYMBOL(struct mhd, destroy, "MHD_destroy_response"),
	DYNLIB_SYMBOL(struct mhd, connection, "MHD_get_connection_info"),
	DYNLIB_SYMBOL(struct mhd, value, "MHD_lookup_connection_value"),
};

static const struct dynlib libmicrohttpd = {
	.soname = "libmicrohttpd.so.12",
	.without = "cannot serve HTTP",
	.remedy = "package libmicrohttpd12 on Debian",
	.rows = rows,
	.n = sizeof(rows) / sizeof(*rows),
};

/* An open connection, with a deadline of our own: a client that sends a byte
 * now and then never counts as idle for libmicrohttpd. */
struct applicant {
	int fd;
	uint64_t until; /* loop time; 0: this place is free */
	uint64_t number; /* in the order of arrival */
};

struct http_server {
	struct MHD_Daemon *daemon;
	uv_poll_t poll;
	uv_timer_t timer, sweeper;
	struct applicant callers[CONNECTIONS];
	uint64_t came;
	int room; /* a connection has closed since the last run */
	int handles;
	http_server_page *page;
	void *arg;
};

/* ---- requests ---- */

const char *http_get_header(const struct http_get *q, const char *name)
{
	return mhd.value(q->connection, MHD_HEADER_KIND, name);
}

const char *http_get_argument(const struct http_get *q,
				  const char *name)
{
	return mhd.value(q->connection, MHD_GET_ARGUMENT_KIND, name);
}

void http_reply_add_header(struct http_reply *r, const char *name,
			   const char *fmt, ...)
{
	char *value;
	va_list ap;
	int n;

	if (r->nheaders == HTTP_REPLY_HEADERS_MAX) {
		r->text.failed = 1;
		return;
	}
	r->headers[r->nheaders].name = name;
	value = r->headers[r->nheaders++].value;
	va_start(ap, fmt);
	n = vsnprintf(value, sizeof(r->headers->value), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(r->headers->value))
		r->text.failed = 1;
}

static enum MHD_Result http_server_answer(struct MHD_Connection *c, int status,
					  const struct http_reply *reply)
{
	/* libmicrohttpd copies the text: it keeps no pointer to our memory */
	struct MHD_Response *r = mhd.response(reply->text.len, reply->text.data,
					      MHD_RESPMEM_MUST_COPY);
	enum MHD_Result rc;

	if (!r)
		return MHD_NO;
	mhd.header(r, "Content-Type", reply->type);
	mhd.header(r, "Connection", "close");
	for (int i = 0; i < reply->nheaders; i++)
		mhd.header(r, reply->headers[i].name, reply->headers[i].value);
	rc = mhd.queue(c, (unsigned)status, r);
	mhd.destroy(r);
	return rc;
}

static enum MHD_Result http_server_on_request(
	void *arg, struct MHD_Connection *c, const char *path,
	const char *method, const char *version, const char *body,
	size_t *body_size, void **state)
{
	const struct http_get q = {path, c};
	struct http_reply r = {.type = "text/plain; charset=utf-8",
			       .text = BUF_INIT(PAGE_MAX)};
	struct http_server *h = arg;
	enum MHD_Result rc;
	int status = 405;

	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		status = h->page(h->arg, &q, &r);
	if (r.text.failed) {
		status = 500;
		buf_reset(&r.text);
		r.nheaders = 0;
	}
	if (!r.text.len && status != 304)
		buf_printf(&r.text, "%d\n", status);
	rc = http_server_answer(c, status, &r);
	buf_release(&r.text);
	return rc;
}

/* ---- how long a connection may last ---- */

/* Shuts down connections whose time is over; libmicrohttpd then closes them. */
static void http_server_on_sweep(uv_timer_t *t)
{
	struct http_server *h = t->data;
	uint64_t now = uv_now(t->loop);
	int left = 0;

	for (struct applicant *k = h->callers; k < h->callers + CONNECTIONS;
	     k++) {
		if (k->until && k->until <= now)
			shutdown(k->fd, SHUT_RDWR);
		left += k->until != 0;
	}
	if (!left)
		uv_timer_stop(t);
}

static struct applicant *http_server_find_caller(struct http_server *h,
						 uint64_t until, int fd)
{
	struct applicant *k = h->callers, *end = k + CONNECTIONS;

	while (k < end && (until ? k->until != 0 : k->fd != fd || !k->until))
		k++;
	return k < end ? k : NULL;
}

/* If all places are taken, the next client would wait up to PATIENCE_S for one,
 * so shuts down the oldest connection. A reply leaves in the same turn in which
 * its request is read, so the oldest has hardly sent a complete request. */
static void http_server_make_room(struct http_server *h)
{
	struct applicant *oldest = h->callers;

	for (struct applicant *k = h->callers; k < h->callers + CONNECTIONS;
	     k++) {
		if (!k->until)
			return;
		if (k->number < oldest->number)
			oldest = k;
	}
	shutdown(oldest->fd, SHUT_RDWR);
}

static void http_server_on_caller(void *arg, struct MHD_Connection *c,
				  void **state,
				  enum MHD_ConnectionNotificationCode what)
{
	int fd = mhd.connection(c, MHD_CONNECTION_INFO_CONNECTION_FD)
			 ->connect_fd;
	struct http_server *h = arg;
	uint64_t until = what == MHD_CONNECTION_NOTIFY_STARTED ?
			 uv_now(h->sweeper.loop) + PATIENCE_S * 1000 : 0;
	struct applicant *k = http_server_find_caller(h, until, fd);

	h->room |= !until;
	if (!k)
		return;
	*k = (struct applicant){fd, until, h->came++};
	http_server_make_room(h);
	if (until && !uv_is_active((uv_handle_t *)&h->sweeper))
		uv_timer_start(&h->sweeper, http_server_on_sweep, SWEEP_MS,
			       SWEEP_MS);
}

/* ---- the loop ---- */

static void http_server_run_daemon(struct http_server *h);

static void http_server_on_timer(uv_timer_t *t)
{
	http_server_run_daemon(t->data);
}

static void http_server_on_poll(uv_poll_t *p, int status, int events)
{
	http_server_run_daemon(p->data);
}

static void http_server_run_daemon(struct http_server *h)
{
	MHD_UNSIGNED_LONG_LONG ms;

	h->room = 0;
	mhd.run(h->daemon);
	/* while all places are taken, libmicrohttpd does not poll its listening
	 * socket: run it again after a connection has closed */
	if (h->room)
		uv_timer_start(&h->timer, http_server_on_timer, 0, 0);
	else if (mhd.timeout(h->daemon, &ms) == MHD_YES)
		uv_timer_start(&h->timer, http_server_on_timer, ms, 0);
	else
		uv_timer_stop(&h->timer);
}

static void http_server_on_closed(uv_handle_t *handle)
{
	struct http_server *h = handle->data;

	if (--h->handles)
		return;
	mhd.stop(h->daemon);
	free(h);
}

void http_server_close(struct http_server *h)
{
	if (!h || uv_is_closing((uv_handle_t *)&h->timer))
		return;
	uv_close((uv_handle_t *)&h->poll, http_server_on_closed);
	uv_close((uv_handle_t *)&h->timer, http_server_on_closed);
	uv_close((uv_handle_t *)&h->sweeper, http_server_on_closed);
}

int http_server_open(struct http_server **out, uv_loop_t *loop, int listen_fd,
	      http_server_page *page, void *arg, struct err *e)
{
	const union MHD_DaemonInfo *info;
	struct http_server *h = NULL;
	int rc = dynlib_load(&libmicrohttpd, &mhd, e) ? 0 : ERR_SYSTEM;

	*out = NULL;
	if (rc == 0 && !(h = calloc(1, sizeof(*h))))
		rc = err_no_memory(e, "the HTTP server");
	if (rc == 0) {
		h->page = page;
		h->arg = arg;
		h->daemon = mhd.start(MHD_USE_EPOLL, 0, NULL, NULL,
				      http_server_on_request, h,
				      MHD_OPTION_LISTEN_SOCKET, listen_fd,
				      MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
				      MHD_OPTION_CONNECTION_TIMEOUT, PATIENCE_S,
				      MHD_OPTION_NOTIFY_CONNECTION,
				      http_server_on_caller, h, MHD_OPTION_END);
		if (!h->daemon)
			rc = err_set(e, ERR_SYSTEM,
				     "libmicrohttpd failed to start");
	}
	if (rc < 0) {
		close(listen_fd);
		free(h);
		return rc;
	}
	info = mhd.info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	rc = loop_check(uv_poll_init(loop, &h->poll, info->epoll_fd), e,
			"cannot watch for requests");
	if (rc < 0) {
		mhd.stop(h->daemon); /* closes the listening socket as well */
		free(h);
		return rc;
	}
	uv_timer_init(loop, &h->timer);
	uv_timer_init(loop, &h->sweeper);
	h->poll.data = h->timer.data = h->sweeper.data = h;
	h->handles = 3;
	*out = h;
	rc = loop_check(
		uv_poll_start(&h->poll, UV_READABLE, http_server_on_poll), e,
		"cannot watch for requests");
	if (rc < 0) {
		http_server_close(h);
		*out = NULL;
	}
	return rc;
}

/* ---- where it listens ---- */

int http_server_listen(const char *option, const char *text,
		       struct endpoint *where, struct sock_addr *at,
		       struct err *e)
{
	int only_port = strspn(text, "0123456789") == strlen(text), rc;
	char full[SOCK_TEXT_MAX];

	snprintf(full, sizeof(full), "%s%s", only_port ? "127.0.0.1:" : "",
		 text);
	if (!strchr(full, ':'))
		return err_set(e, ERR_USAGE, "%s %s: give PORT (on loopback) "
			       "or ADDRESS:PORT", option, text);
	rc = endpoint_parse(where, full, 0, e);
	if (rc == 0)
		rc = sock_resolve(where, at, 1, e);
	return rc < 0 ? rc : sock_listen(at, e);
}

/* http.c: libcurl's multi interface, driven by libuv's polls and timers, as in
 * libcurl's own example, multi-uv. */
#include "etcd/http.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "base/sock.h"

enum { SILENT_MS = 3000 };

/* The calls that take any argument are macros in curl.h */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

struct curl {
	__typeof__(curl_global_init) *global_init;
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_setopt) *set;
	__typeof__(curl_easy_getinfo) *info;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_easy_strerror) *strerror;
	__typeof__(curl_slist_append) *append;
	__typeof__(curl_slist_free_all) *free_list;
	__typeof__(curl_multi_init) *multi_init;
	__typeof__(curl_multi_setopt) *multi_set;
	__typeof__(curl_multi_add_handle) *add;
	__typeof__(curl_multi_remove_handle) *remove;
	__typeof__(curl_multi_socket_action) *act;
	__typeof__(curl_multi_assign) *assign;
	__typeof__(curl_multi_info_read) *read;
	__typeof__(curl_multi_cleanup) *multi_cleanup;
};

static const struct dynlib_symbol rows[] = {
	DYNLIB_SYMBOL(struct curl, global_init, "curl_global_init"),
	DYNLIB_SYMBOL(struct curl, easy_init, "curl_easy_init"),
	DYNLIB_SYMBOL(struct curl, set, "curl_easy_setopt"),
	DYNLIB_SYMBOL(struct curl, info, "curl_easy_getinfo"),
	DYNLIB_SYMBOL(struct curl, easy_cleanup, "curl_easy_cleanup"),
	DYNLIB_SYMBOL(struct curl, strerror, "curl_easy_strerror"),
	DYNLIB_SYMBOL(struct curl, append, "curl_slist_append"),
	DYNLIB_SYMBOL(struct curl, free_list, "curl_slist_free_all"),
	DYNLIB_SYMBOL(struct curl, multi_init, "curl_multi_init"),
	DYNLIB_SYMBOL(struct curl, multi_set, "curl_multi_setopt"),
	DYNLIB_SYMBOL(struct curl, add, "curl_multi_add_handle"),
	DYNLIB_SYMBOL(struct curl, remove, "curl_multi_remove_handle"),
	DYNLIB_SYMBOL(struct curl, act, "curl_multi_socket_action"),
	DYNLIB_SYMBOL(struct curl, assign, "curl_multi_assign"),
	DYNLIB_SYMBOL(struct curl, read, "curl_multi_info_read"),
	DYNLIB_SYMBOL(struct curl, multi_cleanup, "curl_multi_cleanup"),
};

static const struct dynlib libcurl = {
	.soname = "libcurl.so.4",
	.without = "cannot connect to etcd",
	.remedy = "package libcurl4 on Debian",
	.rows = rows,
	.n = sizeof(rows) / sizeof(*rows),
};

struct http {
	const struct curl *curl;
	uv_loop_t *loop;
	struct http_tls tls;
	CURLM *multi;
	uv_timer_t timer;
	struct http_call *calls;
	int inside; /* in a callback of libcurl: no call may be freed now */
	int closing;
};

struct http_call {
	struct http *http;
	struct http_call *next, **pprev;
	CURL *easy;
	struct curl_slist *headers;
	char *body;
	struct buf in;
	size_t used; /* bytes of in that were reported as lines */
	const struct http_events *events;
	void *owner;
	int is_stream;
	int canceled; /* in a callback of libcurl; http_reap frees it */
	char error[CURL_ERROR_SIZE];
};

/* libcurl's socket, and libuv's view of it. */
struct watched {
	struct http *http;
	uv_poll_t poll;
	curl_socket_t fd;
};

static const struct curl *http_load_curl(struct err *e)
{
	static struct curl curl;
	static int loaded;

	if (loaded)
		return &curl;
	if (!dynlib_load(&libcurl, &curl, e))
		return NULL;
	if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		err_set(e, ERR_SYSTEM, "%s: %s failed to start",
			libcurl.without, libcurl.soname);
		return NULL;
	}
	loaded = 1;
	return &curl;
}

/* ---- the end of calls ---- */

static void http_call_free(struct http_call *c)
{
	const struct curl *curl = c->http->curl;

	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	if (c->easy) {
		curl->remove(c->http->multi, c->easy);
		curl->easy_cleanup(c->easy);
	}
	curl->free_list(c->headers);
	free(c->body);
	buf_release(&c->in);
	free(c);
}

/* ERR_REFUSED: a retry will hardly succeed. */
static int http_error_code(CURLcode code, int has_guess)
{
	switch (code) {
	case CURLE_RECV_ERROR:
	case CURLE_HTTP2_STREAM:
	case CURLE_GOT_NOTHING:
		return has_guess ? ERR_REFUSED : ERR_REMOTE;
	case CURLE_OPERATION_TIMEDOUT:
		return ERR_TIMEOUT;
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
	case CURLE_SSL_CACERT_BADFILE:
		return ERR_REFUSED;
	default:
		return ERR_REMOTE;
	}
}

/* Advice about a certificate error; "": none. */
static const char *http_advice(CURLcode code)
{
	if (code == CURLE_SSL_CACERT_BADFILE)
		return "; install ca-certificates, or give the CA that signed "
		       "etcd's certificate (cacert=FILE)";
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return "; is cacert=FILE the CA that signed etcd's "
		       "certificate?";
	if (code == CURLE_SSL_CONNECT_ERROR)
		return "; does it speak https, and is this its client port?";
	return "";
}

/* Guesses why the peer closed a new https connection without a reply. A server
 * that demands a client certificate closes after the handshake; a server that
 * speaks plain http answers the handshake with an error, or resets. */
static const char *http_status_text(const struct http_call *c, CURLcode code,
				    const char *url)
{
	long connects = 0, error = 0;
	double shaken = 0;

	c->http->curl->info(c->easy, CURLINFO_OS_ERRNO, &error);
	if (code != CURLE_RECV_ERROR && code != CURLE_GOT_NOTHING &&
	    code != CURLE_HTTP2_STREAM && error != ECONNRESET)
		return "";
	c->http->curl->info(c->easy, CURLINFO_NUM_CONNECTS, &connects);
	c->http->curl->info(c->easy, CURLINFO_APPCONNECT_TIME, &shaken);
	if (strncmp(url, "https:", 6) || !connects || c->http->tls.cert)
		return "";
	return shaken > 0 ? "; does it require a client certificate?"
			  : "; does it speak https, not http?";
}

static void http_call_finish(struct http_call *c, CURLcode code)
{
	const struct http_events *events = c->events;
	void *owner = c->owner;
	struct buf in = c->in;
	size_t used = c->used;
	struct err why = ERR_INIT;
	char *url = NULL;
	long status = 0;
	int canceled = c->canceled;

	c->http->curl->info(c->easy, CURLINFO_RESPONSE_CODE, &status);
	c->http->curl->info(c->easy, CURLINFO_EFFECTIVE_URL, &url);
	if (in.failed)
		status = err_set(&why, ERR_PROTOCOL,
				 "%s: its reply is larger than %d MiB", url,
				 HTTP_BODY_MAX >> 20);
	else if (code != CURLE_OK)
		status = err_set(
			&why,
			http_error_code(code, *http_status_text(c, code, url)),
			"%s: %s%s%s", url,
			c->error[0] ? c->error : c->http->curl->strerror(code),
			http_advice(code), http_status_text(c, code, url));
	buf_init(&c->in, 0);
	http_call_free(c);
	if (!canceled)
		events->on_done(owner, status,
				SLICE(in.data + used, in.len - used), &why);
	buf_release(&in);
}

/* Ends the calls that are done or were cancelled. Runs after each action. */
static void http_reap(struct http *h)
{
	struct http_call *c, *next;
	CURLMsg *m;
	int left;

	while (!h->closing && (m = h->curl->read(h->multi, &left))) {
		if (m->msg != CURLMSG_DONE)
			continue;
		h->curl->info(m->easy_handle, CURLINFO_PRIVATE, (char **)&c);
		http_call_finish(c, m->data.result);
	}
	for (c = h->calls; c; c = next) {
		next = c->next;
		if (c->canceled)
			http_call_free(c);
	}
}

static void http_socket_action(struct http *h, curl_socket_t fd, int what)
{
	int running;

	h->inside = 1;
	h->curl->act(h->multi, fd, what, &running);
	h->inside = 0;
	http_reap(h);
}

/* ---- libuv for libcurl ---- */

static void http_on_socket_event(uv_poll_t *p, int status, int events)
{
	struct watched *w = p->data;
	int what = 0;

	if (status < 0)
		what = CURL_CSELECT_ERR;
	if (events & UV_READABLE)
		what |= CURL_CSELECT_IN;
	if (events & UV_WRITABLE)
		what |= CURL_CSELECT_OUT;
	http_socket_action(w->http, w->fd, what);
}

static void http_on_socket_closed(uv_handle_t *p)
{
	free(p->data);
}

static int http_watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
			     void *assigned)
{
	struct http *h = arg;
	struct watched *w = assigned;
	int events = 0;

	if (what == CURL_POLL_REMOVE) {
		if (w)
			uv_close((uv_handle_t *)&w->poll,
				 http_on_socket_closed);
		h->curl->assign(h->multi, fd, NULL);
		return 0;
	}
	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w)
			return -1;
		w->http = h;
		w->fd = fd;
		if (uv_poll_init_socket(h->loop, &w->poll, fd) < 0) {
			free(w);
			return -1;
		}
		w->poll.data = w;
		h->curl->assign(h->multi, fd, w);
	}
	if (what != CURL_POLL_OUT)
		events |= UV_READABLE;
	if (what != CURL_POLL_IN)
		events |= UV_WRITABLE;
	return uv_poll_start(&w->poll, events, http_on_socket_event);
}

static void http_on_timer(uv_timer_t *t)
{
	http_socket_action(t->data, CURL_SOCKET_TIMEOUT, 0);
}

static int http_set_timer(CURLM *multi, long ms, void *arg)
{
	struct http *h = arg;

	if (ms < 0)
		return uv_timer_stop(&h->timer);
	return uv_timer_start(&h->timer, http_on_timer, (uint64_t)ms, 0);
}

/* ---- a call ---- */

static void http_give_lines(struct http_call *c)
{
	struct slice line;
	char *end;

	while (!c->canceled &&
	       (end = memchr(c->in.data + c->used, '\n',
			     c->in.len - c->used))) {
		line = SLICE(c->in.data + c->used,
			     (size_t)(end - c->in.data) - c->used);
		c->used += line.len + 1;
		c->events->on_line(c->owner, line);
	}
	buf_consume(&c->in, c->used);
	c->used = 0;
}

static size_t http_on_body(char *data, size_t one, size_t n, void *arg)
{
	struct http_call *c = arg;

	buf_put(&c->in, data, n);
	if (c->in.failed)
		return 0;
	if (c->is_stream)
		http_give_lines(c);
	return n;
}

/* A stream may be silent for hours, so the kernel must detect a lost peer. */
static int http_on_socket(void *arg, curl_socket_t fd, curlsocktype what)
{
	sock_set_silence_limit(fd, SILENT_MS);
	return CURL_SOCKOPT_OK;
}

static int http_setup_call(struct http_call *c, const struct http_request *r)
{
	const struct curl *curl = c->http->curl;
	const struct http_tls *tls = &c->http->tls;
	struct buf line = BUF_INIT(64 << 10);

	c->headers = curl->append(NULL, "Content-Type: application/json");
	/* else libcurl asks before it sends a body of more than a MiB */
	c->headers = curl->append(c->headers, "Expect:");
	if (r->token) {
		buf_printf(&line, "Authorization: %s", r->token);
		buf_put_u8(&line, 0);
		if (!line.failed)
			c->headers = curl->append(c->headers, line.data);
		buf_release(&line);
	}
	if (!c->headers)
		return -1;
	curl->set(c->easy, CURLOPT_PRIVATE, c);
	curl->set(c->easy, CURLOPT_URL, r->url);
	curl->set(c->easy, CURLOPT_HTTPHEADER, c->headers);
	curl->set(c->easy, CURLOPT_POSTFIELDS, c->body);
	curl->set(c->easy, CURLOPT_POSTFIELDSIZE_LARGE,
		  (curl_off_t)r->body.len);
	curl->set(c->easy, CURLOPT_WRITEFUNCTION, http_on_body);
	curl->set(c->easy, CURLOPT_WRITEDATA, c);
	curl->set(c->easy, CURLOPT_ERRORBUFFER, c->error);
	curl->set(c->easy, CURLOPT_NOSIGNAL, 1L);
	curl->set(c->easy, CURLOPT_NOPROXY, "*");
#if LIBCURL_VERSION_NUM >= 0x075500
	curl->set(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl->set(c->easy, CURLOPT_PROTOCOLS,
		  (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	curl->set(c->easy, CURLOPT_CONNECTTIMEOUT_MS, r->connect_ms);
	curl->set(c->easy, CURLOPT_TIMEOUT_MS, r->timeout_ms);
	curl->set(c->easy, CURLOPT_SOCKOPTFUNCTION, http_on_socket);
	if (tls->cacert)
		curl->set(c->easy, CURLOPT_CAINFO, tls->cacert);
	if (tls->cert)
		curl->set(c->easy, CURLOPT_SSLCERT, tls->cert);
	if (tls->key)
		curl->set(c->easy, CURLOPT_SSLKEY, tls->key);
	return 0;
}

int http_post(struct http *h, const struct http_request *r,
	      struct http_call **out, struct err *e)
{
	struct http_call *c = calloc(1, sizeof(*c));
	int failed;

	if (!c)
		return err_no_memory(e, "an HTTP request");
	c->http = h;
	c->events = r->events;
	c->owner = r->owner;
	c->is_stream = !r->timeout_ms;
	buf_init(&c->in, HTTP_BODY_MAX);
	c->next = h->calls;
	if (c->next)
		c->next->pprev = &c->next;
	c->pprev = &h->calls;
	h->calls = c;
	c->body = malloc(r->body.len + 1);
	c->easy = h->curl->easy_init();
	failed = !c->body || !c->easy;
	if (!failed) {
		memcpy(c->body, r->body.data, r->body.len);
		failed = http_setup_call(c, r) < 0 ||
			 h->curl->add(h->multi, c->easy) != CURLM_OK;
	}
	if (failed) {
		http_call_free(c);
		return err_set(e, -ENOMEM, "%s: out of memory for a request",
			       r->url);
	}
	*out = c;
	return 0;
}

void http_cancel(struct http_call *c)
{
	c->canceled = 1;
	if (!c->http->inside)
		http_call_free(c);
}

/* ---- begin and end ---- */

int http_new(struct http **out, uv_loop_t *loop, const struct http_tls *tls,
	     struct err *e)
{
	const struct curl *curl = http_load_curl(e);
	struct http *h;

	if (!curl)
		return ERR_SYSTEM;
	h = calloc(1, sizeof(*h));
	if (!h)
		return err_no_memory(e, "an HTTP request");
	h->curl = curl;
	h->loop = loop;
	h->tls = *tls;
	h->multi = curl->multi_init();
	if (!h->multi) {
		free(h);
		return err_no_memory(e, "an HTTP request");
	}
	uv_timer_init(loop, &h->timer);
	h->timer.data = h;
	curl->multi_set(h->multi, CURLMOPT_SOCKETFUNCTION, http_watch_socket);
	curl->multi_set(h->multi, CURLMOPT_SOCKETDATA, h);
	curl->multi_set(h->multi, CURLMOPT_TIMERFUNCTION, http_set_timer);
	curl->multi_set(h->multi, CURLMOPT_TIMERDATA, h);
	*out = h;
	return 0;
}

static void http_on_timer_closed(uv_handle_t *t)
{
	free(t->data);
}

/* Must not be called in a callback of libcurl: it frees libcurl's memory. */
void http_close(struct http *h)
{
	struct http_call *c;

	h->closing = 1;
	while ((c = h->calls)) {
		http_call_free(c);
		assert(h->calls != c);
	}
	h->curl->multi_cleanup(h->multi);
	uv_close((uv_handle_t *)&h->timer, http_on_timer_closed);
}

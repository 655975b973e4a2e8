/* http.h: POST requests on a libuv loop with libcurl, which is loaded on first
 * use so that other servers start faster. Knows nothing of etcd, and never
 * retries. */
#ifndef ETCD_HTTP_H
#define ETCD_HTTP_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

struct http;
struct http_call;

/* Files, borrowed; NULL: the system's certificates, no client certificate. */
struct http_tls {
	const char *cacert, *cert, *key;
};

enum {
	HTTP_BODY_MAX = 64 << 20, /* a reply, or one line of a stream */
};

struct http_events {
	/* A line of a stream's reply, without its end; valid until return. */
	void (*on_line)(void *owner, struct slice line);
	/* The call is over and freed. status is HTTP's, and body the reply (or
	 * the rest after a stream's last line); or < 0, and why has what failed
	 * and the address. Not called after http_cancel. */
	void (*on_done)(void *owner, long status, struct slice body,
			const struct err *why);
};

struct http_request {
	const char *url;
	const char *token;  /* for an Authorization header; NULL: none */
	struct slice body;  /* JSON; copied */
	long connect_ms;    /* to get a connection */
	long timeout_ms;    /* for the whole call; 0: an endless stream */
	const struct http_events *events;
	void *owner;
};

/* ERR_SYSTEM if libcurl is missing; the text says what to install. */
int http_new(struct http **out, uv_loop_t *loop, const struct http_tls *tls,
	     struct err *e);
/* Cancels all calls. The memory is freed from the loop. */
void http_close(struct http *h);

/* Never calls on_done before it returns. -ENOMEM, or libcurl's error. */
int http_post(struct http *h, const struct http_request *request,
	      struct http_call **out, struct err *e);
void http_cancel(struct http_call *c);

#endif

/* http.h: POSTs over HTTP on a libuv loop, by libcurl, which is looked up when
 * it is first needed: a ddprdzv that has no use for it does not wait for it to
 * load. Knows nothing of etcd, and decides nothing about trying again. */
#ifndef ETCD_HTTP_H
#define ETCD_HTTP_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

struct http;
struct http_call;

/* Files; NULL: the system's certificates, no certificate of ours. Borrowed. */
struct http_tls {
	const char *cacert, *cert, *key;
};

enum {
	HTTP_BODY_MAX = 64 << 20, /* of a reply, or of one line of a stream */
};

struct http_events {
	/* A line of a stream's reply, without its end; valid until return. */
	void (*on_line)(void *owner, struct slice line);
	/* The call is over and its memory gone. status: HTTP's (body is the
	 * whole reply, or what follows a stream's last line); or < 0 and why
	 * says what failed, at which address. Not called after http_cancel. */
	void (*on_done)(void *owner, long status, struct slice body,
			const struct err *why);
};

struct http_request {
	const char *url;
	const char *token;  /* for an Authorization header; NULL: none */
	struct slice body;  /* JSON; copied */
	long connect_ms;    /* to get a connection */
	long timeout_ms;    /* for all of it; 0: a stream, which has no end */
	const struct http_events *events;
	void *owner;
};

/* ERR_SYSTEM where libcurl is not to be had; the text says what to install. */
int http_new(struct http **out, uv_loop_t *loop, const struct http_tls *tls,
	     struct err *e);
/* Cancels all calls. The memory goes by itself, from the loop. */
void http_close(struct http *h);

/* on_done never comes before this has returned. -ENOMEM, or libcurl's. */
int http_post(struct http *h, const struct http_request *request,
	      struct http_call **out, struct err *e);
void http_cancel(struct http_call *c);

#endif

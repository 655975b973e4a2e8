/* http_server.h: answers GET on a port with texts from a callback, on a libuv
 * loop: libmicrohttpd, loaded on first use and polled through its epoll
 * descriptor. Knows nothing of what is served. A connection serves one request
 * and lasts at most 10 s; there are 16 at a time, and a client too many ends
 * the oldest one. */
#ifndef RENDEZVOUS_HTTP_SERVER_H
#define RENDEZVOUS_HTTP_SERVER_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/sock.h"

struct http_server;

/* A GET or HEAD; valid during the callback. */
struct http_get {
	const char *path;
	void *connection;
};

/* The first header of that name (in any case), or the first ?NAME=value of the
 * URL, decoded ("" without a value). NULL: there is none. */
const char *http_get_header(const struct http_get *q, const char *name);
const char *http_get_argument(const struct http_get *q,
				  const char *name);

enum { HTTP_REPLY_HEADERS_MAX = 12 };

/* What the callback fills in. */
struct http_reply {
	const char *type; /* plain text at first */
	struct buf text;  /* empty: the status is the text */
	struct {
		const char *name;
		char value[256];
	} headers[HTTP_REPLY_HEADERS_MAX];
	int nheaders;
};

/* name is a literal. A header too many, or a value that is too long, makes the
 * reply a 500. */
void http_reply_add_header(struct http_reply *r, const char *name,
			   const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns the HTTP status. */
typedef int http_server_page(void *arg, const struct http_get *q,
			     struct http_reply *r);

/* Takes listen_fd. ERR_SYSTEM: the library is missing; the text gives the
 * remedy. Close *out with http_server_close. */
int http_server_open(struct http_server **out, uv_loop_t *loop, int listen_fd,
	      http_server_page *page, void *arg, struct err *e);
/* The memory is freed in the loop's next turn. NULL is fine. */
void http_server_close(struct http_server *h);

/* Listens where the value of an option says: PORT (on loopback) or
 * ADDRESS:PORT. *where is what it says; in *at the port is filled in.
 * Returns the descriptor, ERR_USAGE, or what sock_listen returns. */
int http_server_listen(const char *option, const char *text,
		       struct endpoint *where, struct sock_addr *at,
		       struct err *e);

#endif

/* http_server.h: answers GET on a port with texts from a callback, on a libuv
 * loop: libmicrohttpd, loaded on first use and polled through its epoll
 * descriptor. Knows nothing of what is served. */
#ifndef RENDEZVOUS_HTTP_SERVER_H
#define RENDEZVOUS_HTTP_SERVER_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

struct http_server;

/* Fills out and *type for a path; returns the HTTP status. */
typedef int http_server_page(void *arg, const char *path, struct buf *out,
		      const char **type);

/* Takes listen_fd. ERR_SYSTEM: the library is missing; the text gives the
 * remedy. Close *out with http_server_close. */
int http_server_open(struct http_server **out, uv_loop_t *loop, int listen_fd,
	      http_server_page *page, void *arg, struct err *e);
/* The memory is freed in the loop's next turn. NULL is fine. */
void http_server_close(struct http_server *h);

#endif

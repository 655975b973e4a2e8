/* web.h: answers GET on a port, with texts that somebody else makes, on a libuv
 * loop: libmicrohttpd, loaded when it is asked for, polled through its epoll
 * descriptor. Knows nothing of what is served. */
#ifndef RENDEZVOUS_WEB_H
#define RENDEZVOUS_WEB_H

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"

struct web;

/* Fills out and *type for a path; returns the status (404: there is none). */
typedef int web_page(void *arg, const char *path, struct buf *out,
		      const char **type);

/* Takes listen_fd. ERR_SYSTEM: the library is not there; the text says what to
 * do. *out is to be given to web_close. */
int web_open(struct web **out, uv_loop_t *loop, int listen_fd,
	      web_page *page, void *arg, struct err *e);
/* The memory goes with the loop's next turn. NULL is fine. */
void web_close(struct web *h);

#endif

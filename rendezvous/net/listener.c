/* listener.c: offers each connection until its owner takes it. */
#include "rendezvous/net/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

static void listener_on_ready(uv_poll_t *p, int status, int events);
static void listener_accept_some(struct listener *l);

static int listener_is_closing(const struct listener *l)
{
	return uv_is_closing((const uv_handle_t *)&l->timer);
}

static void listener_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void listener_on_timer(uv_timer_t *t)
{
	struct listener *l = t->data;

	if (l->waits)
		listener_again(l);
	else
		listener_accept_some(l);
}

/* No event reports that memory or descriptors are available again, so retry. */
static void listener_retry_later(struct listener *l)
{
	uv_timer_start(&l->timer, listener_on_timer, LISTENER_AGAIN_MS, 0);
}

static void listener_wait_for_memory(struct listener *l)
{
	if (!l->logged)
		log_warn("%s cannot accept a connection: out of memory; "
			 "retrying",
			 l->whose);
	l->logged = 1;
	listener_retry_later(l);
}

/* ---- descriptors ---- */

static void listener_keep_reserve(struct listener *l)
{
	if (l->tells && l->reserve < 0)
		l->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_log_full(const struct listener *l, int code)
{
	struct rlimit r = {.rlim_cur = 0};

	getrlimit(RLIMIT_NOFILE, &r);
	if (code == ENFILE)
		log_warn("%s has no descriptor left for a connection, and "
			 "neither has any other process on this host: raise "
			 "fs.file-max (sysctl); new clients wait",
			 l->whose);
	else if (code == EMFILE)
		log_warn("%s has no descriptor left for a connection: all %llu "
			 "are in use; raise the limit of its process (ulimit "
			 "-n, LimitNOFILE=); new clients wait", l->whose,
			 (unsigned long long)r.rlim_cur);
	else
		log_warn("%s cannot accept a connection: %s; new clients wait",
			 l->whose, strerror(code));
}

/* New clients wait in the kernel for LISTENER_SCARCE_MS. Then each is accepted
 * with the reserved descriptor, refused with the reason, and closed. */
static void listener_log_is_full(struct listener *l, int code)
{
	uint64_t now = uv_now(l->timer.loop);

	if (!l->full_since) {
		listener_log_full(l, code);
		l->full_since = now ? now : 1;
	}
	uv_poll_stop(&l->poll);
	listener_retry_later(l);
	if (l->reserve < 0 || now - l->full_since < LISTENER_SCARCE_MS)
		return;
	listener_close_fd(&l->reserve);
	l->pending = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	l->scarce = l->pending >= 0;
}

static void listener_log_is_not_full(struct listener *l)
{
	if (l->full_since)
		log_info("%s has descriptors for connections again", l->whose);
	l->full_since = 0;
}

/* ---- connections ---- */

/* 1: accepted a connection. */
static int listener_accept_next(struct listener *l)
{
	listener_keep_reserve(l);
	l->scarce = 0;
	l->pending = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	/* accept allocates a descriptor before it looks for a connection, so
	 * any other result means that there are descriptors */
	if (l->pending >= 0 || (errno != EMFILE && errno != ENFILE &&
				errno != ENOBUFS && errno != ENOMEM))
		listener_log_is_not_full(l);
	else
		listener_log_is_full(l, errno);
	return l->pending >= 0;
}

/* 1: the owner took it. */
static int listener_offer_connection(struct listener *l)
{
	enum listener_answer a;
	int fd = l->pending;

	/* first, because the callback may call listener_again */
	l->waits = 0;
	l->pending = -1;
	a = l->on_connection(l, fd, l->scarce);
	if (a == LISTENER_TOOK) {
		l->logged = 0;
		return 1;
	}
	if (listener_is_closing(l)) {
		close(fd);
		return 0;
	}
	l->waits = 1;
	l->pending = fd;
	uv_poll_stop(&l->poll);
	if (a == LISTENER_NO_MEMORY)
		listener_wait_for_memory(l);
	return 0;
}

static void listener_listen_on(struct listener *l)
{
	if (listener_is_closing(l) || l->waits || l->full_since ||
	    uv_is_active((uv_handle_t *)&l->poll))
		return;
	if (uv_poll_start(&l->poll, UV_READABLE, listener_on_ready) < 0)
		listener_retry_later(l);
}

static void listener_accept_some(struct listener *l)
{
	for (int i = 0; i < LISTENER_BATCH && !listener_is_closing(l); i++)
		if (!listener_accept_next(l) || !listener_offer_connection(l))
			break;
	listener_listen_on(l);
}

static void listener_on_ready(uv_poll_t *p, int status, int events)
{
	listener_accept_some(p->data);
}

/* ---- life ---- */

int listener_open(struct listener *l, uv_loop_t *loop, int fd)
{
	int rc = uv_poll_init(loop, &l->poll, fd);

	uv_timer_init(loop, &l->timer); /* cannot fail: only sets fields */
	l->poll.data = l->timer.data = l;
	l->fd = fd;
	l->handles = rc < 0 ? 1 : 2;
	l->started = rc == 0;
	l->waits = l->logged = l->scarce = 0;
	l->full_since = 0;
	l->pending = l->reserve = -1;
	return rc;
}

int listener_start(struct listener *l)
{
	listener_keep_reserve(l);
	if (listen(l->fd, SOMAXCONN) < 0)
		return -errno;
	return uv_poll_start(&l->poll, UV_READABLE, listener_on_ready);
}

void listener_again(struct listener *l)
{
	if (!l->waits || listener_is_closing(l))
		return;
	uv_timer_stop(&l->timer);
	if (listener_offer_connection(l) && l->full_since)
		listener_retry_later(l);
	else
		listener_listen_on(
			l); /* the next one is accepted in another turn */
}

static void listener_on_closed(uv_handle_t *h)
{
	struct listener *l = h->data;

	if (--l->handles == 0 && l->on_closed)
		l->on_closed(l);
}

void listener_close(struct listener *l)
{
	if (listener_is_closing(l))
		return;
	if (l->started)
		uv_close((uv_handle_t *)&l->poll, listener_on_closed);
	uv_close((uv_handle_t *)&l->timer, listener_on_closed);
	listener_close_fd(&l->fd);
	listener_close_fd(&l->pending);
	listener_close_fd(&l->reserve);
}

/* listener.c: offers each connection until its owner takes it. */
#include "rendezvous/listener.h"

#include <unistd.h>

#include "base/log.h"

static void on_timer(uv_timer_t *t)
{
	listener_again(t->data);
}

/* Nothing says when there is memory again, so it is tried. */
static void wait_for_memory(struct listener *l)
{
	if (!l->logged)
		log_warn("%s cannot take a connection: out of memory; it "
			 "waits, and is tried again", l->whose);
	l->logged = 1;
	uv_timer_start(&l->timer, on_timer, LISTENER_AGAIN_MS, 0);
}

static void offer(struct listener *l)
{
	enum listener_answer a;

	l->waits = 0; /* or the owner may find it waiting within this call */
	a = l->on_connection(l);
	l->waits = a != LISTENER_TOOK;
	if (a == LISTENER_NO_MEMORY)
		wait_for_memory(l);
	else if (a == LISTENER_TOOK)
		l->logged = 0;
}

static void on_connection(uv_stream_t *s, int status)
{
	struct listener *l = s->data;

	if (status < 0)
		log_warn("%s cannot take a connection: %s", l->whose,
			 uv_strerror(status));
	else
		offer(l);
}

int listener_open(struct listener *l, uv_loop_t *loop, int fd)
{
	int rc;

	/* neither can fail: both only set fields of l */
	uv_tcp_init(loop, &l->tcp);
	uv_timer_init(loop, &l->timer);
	l->tcp.data = l->timer.data = l;
	l->handles = 2;
	l->waits = l->logged = 0;
	rc = uv_tcp_open(&l->tcp, fd);
	if (rc < 0)
		close(fd);
	return rc;
}

int listener_start(struct listener *l)
{
	return uv_listen((uv_stream_t *)&l->tcp, SOMAXCONN, on_connection);
}

void listener_again(struct listener *l)
{
	if (!l->waits || uv_is_closing((uv_handle_t *)&l->tcp))
		return;
	uv_timer_stop(&l->timer);
	offer(l);
}

static void on_closed(uv_handle_t *h)
{
	struct listener *l = h->data;

	if (--l->handles == 0 && l->on_closed)
		l->on_closed(l);
}

void listener_close(struct listener *l)
{
	if (uv_is_closing((uv_handle_t *)&l->tcp))
		return;
	uv_close((uv_handle_t *)&l->tcp, on_closed);
	uv_close((uv_handle_t *)&l->timer, on_closed);
}

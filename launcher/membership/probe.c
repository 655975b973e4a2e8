/* probe.c: a ring of attempts, of which a new one replaces the oldest. */
#include "launcher/membership/probe.h"

static void probe_on_try_closed(uv_handle_t *h)
{
	struct probe_try *t = h->data;

	t->open = 0;
}

static void probe_end_try(struct probe_try *t)
{
	if (t->open && !uv_is_closing((uv_handle_t *)&t->tcp))
		uv_close((uv_handle_t *)&t->tcp, probe_on_try_closed);
}

static void probe_on_connect(uv_connect_t *req, int status)
{
	struct probe_try *t = req->data;
	struct probe *p = t->probe;

	probe_end_try(t);
	if (!p->running || (status < 0 && status != UV_ECONNREFUSED))
		return;
	probe_stop(p);
	p->on_reached(p->owner);
}

static void probe_on_time(uv_timer_t *timer)
{
	struct probe *p = timer->data;
	struct probe_try *t = &p->tries[p->next++ % PROBE_TRIES];

	probe_end_try(&p->tries[p->next % PROBE_TRIES]);
	if (t->open)
		return;
	if (uv_tcp_init(p->timer.loop, &t->tcp) < 0)
		return;
	t->open = 1;
	t->probe = p;
	t->tcp.data = t->connect.data = t;
	if (uv_tcp_connect(&t->connect, &t->tcp,
			   (const struct sockaddr *)&p->addr.ss,
			   probe_on_connect) < 0)
		probe_end_try(t);
}

void probe_init(struct probe *p, uv_loop_t *loop,
		void (*on_reached)(void *owner), void *owner)
{
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	p->on_reached = on_reached;
	p->owner = owner;
}

void probe_start(struct probe *p, const struct sock_addr *addr,
		 uint64_t every_ms)
{
	if (p->running)
		return;
	p->running = 1;
	p->addr = *addr;
	uv_timer_start(&p->timer, probe_on_time, 0, every_ms ? every_ms : 1);
}

void probe_stop(struct probe *p)
{
	p->running = 0;
	uv_timer_stop(&p->timer);
	for (int i = 0; i < PROBE_TRIES; i++)
		probe_end_try(&p->tries[i]);
}

void probe_close(struct probe *p)
{
	probe_stop(p);
	uv_close((uv_handle_t *)&p->timer, NULL);
}

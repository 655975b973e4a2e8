/* standby.c: a list of copied HELLOs, with one timer for the oldest. */
#include "rendezvous/admission/admission.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/auth/credential.h"
#include "rendezvous/election/leadership.h"

struct standby_hello {
	struct peer *peer;
	struct standby_hello *next, **pprev;
	uint64_t due;
	struct buf body;
	struct wire_frame frame;
	char grant[CREDENTIAL_MAX];
	struct proof key;
	int has_key;
};

static void standby_on_timer(uv_timer_t *t);

static void standby_set_timer(struct server *s)
{
	uint64_t now = uv_now(s->loop);
	const struct standby_hello *x = s->standby.first;

	if (x)
		uv_timer_start(&s->standby.timer, standby_on_timer,
			       x->due > now ? x->due - now : 0, 0);
	else
		uv_timer_stop(&s->standby.timer);
}

static void standby_hello_free(struct standby_hello *x)
{
	struct standby *w = &x->peer->server->standby;

	x->peer->applicant.waits = NULL;
	*x->pprev = x->next;
	if (x->next)
		x->next->pprev = x->pprev;
	else
		w->last = x->pprev == &w->first
				  ? NULL
				  : (struct standby_hello
					     *)((char *)x->pprev -
						offsetof(struct standby_hello,
							 next));
	buf_release(&x->body);
	proof_wipe(x, sizeof(*x));
	free(x);
}

void standby_forget(struct peer *p)
{
	if (!p->applicant.waits)
		return;
	standby_hello_free(p->applicant.waits);
	standby_set_timer(p->server);
}

int standby_hold(struct peer *p, const struct wire_frame *f, const char *grant,
		 const struct proof *key)
{
	struct server *s = p->server;
	struct standby *w = &s->standby;
	struct standby_hello *x;

	if (p->is_refused || s->draining || leadership_is_known(s->leadership))
		return 0;
	x = calloc(1, sizeof(*x));
	if (!x)
		return 0;
	buf_init(&x->body, WIRE_HELLO_MAX);
	buf_put(&x->body, f->body.data, f->body.len);
	if (x->body.failed) {
		free(x);
		return 0;
	}
	x->frame = *f;
	x->frame.body = SLICE(x->body.data, x->body.len);
	snprintf(x->grant, sizeof(x->grant), "%s", grant);
	x->has_key = key != NULL;
	if (key)
		x->key = *key;
	x->peer = p;
	x->due = uv_now(s->loop) + STANDBY_MS;
	x->pprev = w->last ? &w->last->next : &w->first;
	*x->pprev = x;
	w->last = x;
	p->applicant.waits = x;
	admission_leave(p);
	conn_proven(&p->conn);
	if (w->first == x)
		standby_set_timer(s);
	return 1;
}

static void standby_answer_first(struct standby *w)
{
	struct standby_hello *x = w->first;
	struct peer *p = x->peer;
	struct wire_hello hello;
	struct err e = ERR_INIT;
	int rc = wire_get_hello(&x->frame, &hello, &e);

	if (rc == 0)
		rc = admission_admit(p, &x->frame, &hello, x->grant,
				     x->has_key ? &x->key : NULL, &e);
	standby_hello_free(x);
	assert(w->first != x);
	if (rc < 0) {
		log_debug("closed a connection: %s", e.text);
		conn_drop(&p->conn);
	}
}

void standby_answer(struct server *s)
{
	while (s->standby.first)
		standby_answer_first(&s->standby);
	standby_set_timer(s);
}

static void standby_on_timer(uv_timer_t *t)
{
	struct server *s = t->data;

	while (s->standby.first && s->standby.first->due <= uv_now(s->loop))
		standby_answer_first(&s->standby);
	standby_set_timer(s);
	conn_flush_all(&s->pool);
}

void standby_init(struct server *s)
{
	uv_timer_init(s->loop, &s->standby.timer);
	s->standby.timer.data = s;
}

void standby_close(struct server *s)
{
	if (!uv_is_closing((uv_handle_t *)&s->standby.timer))
		uv_close((uv_handle_t *)&s->standby.timer, NULL);
}

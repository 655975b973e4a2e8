/* tool.c: one connection, one request. */
#include "launcher/inspect/tool.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/loop.h"
#include "launcher/config/exit_code.h"
#include "rendezvous/client/link.h"

enum { REQUEST_ID = 2, /* HELLO's is 1 */ NAP_MS = 20 };

struct asking {
	const struct tool_question *q;
	uv_loop_t loop;
	struct link link;
	uv_timer_t timer;
	struct sock_addr addr;
	int rc; /* 1: no end yet */
	struct err *e;
};

static void end(struct asking *x, int rc)
{
	if (x->rc <= 0)
		return;
	x->rc = rc;
	link_close(&x->link);
	uv_close((uv_handle_t *)&x->timer, NULL);
}

static int take(struct asking *x, const struct wire_frame *f)
{
	struct wire_error why;
	int rc;

	if (f->kind == WIRE_ERROR_REPLY) {
		rc = wire_get_error(f, &why, x->e);
		if (rc < 0)
			return rc;
		return err_set(x->e, exit_code_refusal(why.code), "%.*s",
			       SLICE_FMT(why.text));
	}
	if (f->kind == WIRE_REPLY)
		return f->id == REQUEST_ID ? 0 : 1;
	rc = x->q->take(x->q->arg, f, x->e);
	return rc < 0 ? rc : 1;
}

static void on_frame(struct link *l, const struct wire_frame *f)
{
	struct asking *x = l->owner;
	int rc = take(x, f);

	if (rc <= 0)
		end(x, rc);
}

static void on_lost(struct link *l, const struct err *why)
{
	struct asking *x = l->owner;

	*x->e = *why;
	end(x, why->code);
}

static void on_closed(struct link *l)
{
}

static void on_timer(uv_timer_t *t)
{
	struct asking *x = t->data;
	char at[SOCK_TEXT_MAX];
	int rc = link_munge_is_late(&x->link, x->e);

	if (rc == 0)
		rc = err_set(x->e, ERR_TIMEOUT, "rendezvous server %s: no "
			     "answer", sock_addr_text(&x->link.addr, at));
	end(x, rc);
}

static const struct link_events events = {
	.on_frame = on_frame, .on_lost = on_lost, .on_closed = on_closed,
};

static void run(struct asking *x)
{
	char host[SOCK_HOST_MAX];
	struct wire_hello hello = {.role = WIRE_TOOL,
				   .job = SLICE_STR(x->q->job)};
	int rc;

	sock_host_name(host);
	hello.host = SLICE_STR(host);
	x->rc = loop_check(uv_loop_init(&x->loop), x->e,
			   "cannot make an event loop");
	if (x->rc < 0)
		return;
	uv_timer_init(&x->loop, &x->timer);
	x->timer.data = x;
	x->rc = 1;
	rc = link_start(&x->link, &x->loop, &x->addr, &hello, x->q->auth,
			&events, x->e);
	if (rc < 0) {
		x->rc = rc;
		uv_close((uv_handle_t *)&x->timer, NULL);
	} else {
		x->link.owner = x;
		link_speak(&x->link);
		x->q->put(link_out(&x->link), REQUEST_ID, x->q->arg);
		link_flush(&x->link);
		uv_timer_start(&x->timer, on_timer, x->q->timeout_ms, 0);
	}
	uv_run(&x->loop, UV_RUN_DEFAULT);
	uv_loop_close(&x->loop);
}

/* Who stands by for a server answers, or after 2 s that there is none yet. */
static void run_until(struct asking *x)
{
	uint64_t end = clock_ms() + x->q->timeout_ms;

	do {
		run(x);
	} while (x->rc == ERR_NOT_YET && clock_ms() < end &&
		 poll(NULL, 0, NAP_MS) == 0);
}

int tool_ask(const struct endpoint *server, const struct tool_question *q,
	     struct err *e)
{
	struct asking *x = calloc(1, sizeof(*x));
	int rc;

	if (!x)
		return err_set(e, -ENOMEM, "out of memory");
	x->q = q;
	x->e = e;
	rc = sock_resolve(server, &x->addr, 1, e);
	if (rc > 0) {
		run_until(x);
		rc = x->rc;
	}
	free(x);
	return rc;
}

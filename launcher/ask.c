/* ask.c: one connection, one DUMP, its NODEs. */
#include "launcher/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "rendezvous/link.h"

enum { PATIENCE_MS = 5000, DUMP_ID = 2 };

struct asking {
	struct ask *to;
	const struct wire_dump *question;
	const struct auth *auth;
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

static int add(struct ask *a, const struct wire_node_page *m)
{
	struct asked_node *more =
		realloc(a->nodes, (a->n + 1) * sizeof(*more)), *n;
	size_t size = m->calls.bytes.len;
	char *page = malloc(m->page.len + size + 1);

	if (more)
		a->nodes = more;
	if (!more || !page) {
		free(page);
		return -ENOMEM;
	}
	memcpy(page, m->page.data, m->page.len);
	memcpy(page + m->page.len, m->calls.bytes.data, size);
	n = &a->nodes[a->n++];
	*n = (struct asked_node){
		.node_rank = m->node_rank, .answered = m->answered,
		.silent_ms = m->silent_ms,
		.page = SLICE(page, m->page.len),
		.calls = {m->calls.count, SLICE(page + m->page.len, size)},
		.host = strndup(m->host.data, m->host.len),
		.text = strndup(m->text.data, m->text.len),
	};
	return n->host && n->text ? 0 : -ENOMEM;
}

static int take(struct asking *x, const struct wire_frame *f)
{
	struct wire_node_page m;
	struct wire_error why;
	int rc;

	if (f->kind == WIRE_ERROR_REPLY) {
		rc = wire_get_error(f, &why, x->e);
		return rc < 0 ? rc : err_set(x->e, ERR_REFUSED, "%.*s",
					     SLICE_FMT(why.text));
	}
	if (f->kind == WIRE_REPLY)
		return f->id == DUMP_ID ? 0 : 1;
	if (f->type != WIRE_NODE)
		return 1;
	rc = wire_get_node_page(f, &m, x->e);
	if (rc == 0 && (rc = add(x->to, &m)) < 0)
		err_set(x->e, rc, "out of memory for the dump");
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

	end(x, err_set(x->e, ERR_TIMEOUT, "rendezvous server %s: no answer",
		       sock_addr_text(&x->addr, at)));
}

static const struct link_events events = {
	.on_frame = on_frame, .on_lost = on_lost, .on_closed = on_closed,
};

static void run(struct asking *x)
{
	char host[SOCK_HOST_MAX];
	struct wire_hello hello = {.role = WIRE_TOOL,
				   .job = SLICE_STR(x->to->job)};
	int rc;

	sock_host_name(host);
	hello.host = SLICE_STR(host);
	uv_loop_init(&x->loop);
	uv_timer_init(&x->loop, &x->timer);
	x->timer.data = x;
	x->rc = 1;
	rc = link_start(&x->link, &x->loop, &x->addr, &hello, x->auth, &events,
			x->e);
	if (rc < 0) {
		x->rc = rc;
		uv_close((uv_handle_t *)&x->timer, NULL);
	} else {
		x->link.owner = x;
		wire_put_dump(link_out(&x->link), WIRE_DUMP, WIRE_REQUEST,
			      DUMP_ID, x->question);
		link_flush(&x->link);
		uv_timer_start(&x->timer, on_timer,
			       x->question->timeout_ms + PATIENCE_MS, 0);
	}
	uv_run(&x->loop, UV_RUN_DEFAULT);
	uv_loop_close(&x->loop);
}

static int compare(const void *pa, const void *pb)
{
	const struct asked_node *a = pa, *b = pb;

	/* -1 is the largest of all */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return strcmp(a->host, b->host);
}

int ask_init(struct ask *a, const struct endpoint *server, const char *job,
	     const struct auth *auth, const struct wire_dump *m,
	     struct err *e)
{
	struct asking *x = calloc(1, sizeof(*x));
	int rc;

	*a = (struct ask){.job = strdup(job)};
	if (!x || !a->job) {
		free(x);
		return err_set(e, -ENOMEM, "out of memory for the dump");
	}
	x->to = a;
	x->question = m;
	x->auth = auth;
	x->e = e;
	rc = sock_resolve(server, &x->addr, 1, e);
	if (rc > 0) {
		run(x);
		rc = x->rc;
	}
	free(x);
	if (rc == 0 && a->n)
		qsort(a->nodes, a->n, sizeof(*a->nodes), compare);
	return rc;
}

void ask_release(struct ask *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->nodes[i].host);
		free(a->nodes[i].text);
		free((char *)a->nodes[i].page.data);
	}
	free(a->nodes);
	free(a->job);
	*a = (struct ask){NULL};
}

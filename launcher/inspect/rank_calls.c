/* rank_calls.c: a blocking call is the last that a rank has begun; what it
 * began before may be asynchronous. */
#include "launcher/inspect/rank_calls.h"

#include <stdlib.h>

#include "rendezvous/wire.h"

enum { MESSAGES_MAX = 64 }; /* messages of a rank that have not arrived */

/* A process that used less CPU time than this between two moments slept. The
 * kernel counts in 1/100 s. */
static const double asleep_s = 0.035;

/* The call that it may be blocked in, or NULL. */
static const struct flight_op *rank_calls_open(const struct flight_view *v)
{
	if (!v || !v->n)
		return NULL;
	return v->ops[v->n - 1].state == FLIGHT_ENTERED ? &v->ops[v->n - 1]
							: flight_oldest_open(v);
}

size_t rank_moments_init(struct rank_moments *m, const struct local_workers *l)
{
	size_t open = 0;

	*m = (struct rank_moments){calloc(l->n + 1, sizeof(*m->list)), 0};
	for (size_t i = 0; m->list && i < l->n; i++) {
		const struct local_worker *w = &l->workers[i];
		const struct flight_op *op = rank_calls_open(w->view);

		m->list[m->n++] = (struct rank_moment){
			.pid = w->pid,
			.ticket = op ? op->ticket : 0,
			.cpu_s = w->cpu_s,
		};
		open += op != NULL;
	}
	return open;
}

void rank_moments_release(struct rank_moments *m)
{
	free(m->list);
	*m = (struct rank_moments){NULL, 0};
}

/* Whether w has been in this call since the first moment. */
static enum wire_call_wait rank_calls_wait(const struct local_worker *w,
					   const struct flight_op *op,
					   const struct rank_moments *before)
{
	for (size_t i = 0; i < before->n; i++) {
		const struct rank_moment *m = &before->list[i];

		if (m->pid != w->pid)
			continue;
		if (m->ticket != op->ticket)
			break;
		return w->cpu_s - m->cpu_s < asleep_s ? WIRE_CALL_SLEEPS
						      : WIRE_CALL_WAITS;
	}
	return WIRE_CALL_PASSES;
}

static uint32_t rank_calls_place(const struct local_worker *w, uint32_t comm)
{
	for (int i = 0; w->view && i < w->view->ncomms; i++) {
		if (w->view->comms[i].id == comm)
			return w->view->comms[i].rank;
	}
	return w->rank;
}

struct rank_calls {
	struct buf *items;
	const struct local_worker *w;
	const struct flight_op *open; /* that it may be blocked in, or NULL */
	enum wire_call_wait waits;    /* how it waits in it */
	uint32_t n;
};

static void rank_calls_add(struct rank_calls *r, uint32_t comm,
			   const struct flight_op *op, enum wire_call_kind kind)
{
	char words[FLIGHT_CALL_MAX] = "";
	struct wire_call c = {
		.rank = r->w->rank,
		.comm = comm,
		.place = rank_calls_place(r->w, comm),
		.kind = (uint8_t)kind,
		.waits = (uint8_t)(op && op == r->open ? r->waits
						       : WIRE_CALL_PASSES),
	};

	if (op) {
		c.number = op->call.number + 1;
		c.peer = (uint32_t)op->call.root;
		flight_op_text(r->w->view, op, words);
	}
	c.words = SLICE_STR(words);
	wire_put_call_item(r->items, &c);
	r->n++;
}

static void rank_calls_add_messages(struct rank_calls *r)
{
	const struct flight_view *v = r->w->view;
	int n = 0;

	for (int i = v ? v->n - 1 : -1; i >= 0 && n < MESSAGES_MAX; i--) {
		const struct flight_op *op = &v->ops[i];

		if (op->state != FLIGHT_ENTERED ||
		    (op->call.kind != FLIGHT_SEND &&
		     op->call.kind != FLIGHT_RECV))
			continue;
		rank_calls_add(r, op->comm, op,
			       op->call.kind == FLIGHT_SEND ? WIRE_CALL_SEND
							    : WIRE_CALL_RECV);
		n++;
	}
}

static void rank_calls_add_worker(struct rank_calls *r,
				  const struct rank_moments *before)
{
	const struct local_worker *w = r->w;
	const struct flight_view *v = w->view;

	r->open = rank_calls_open(v);
	r->waits = r->open ? rank_calls_wait(w, r->open, before)
			   : WIRE_CALL_PASSES;
	rank_calls_add(r, 0, local_worker_last_collective(w, 0),
		       WIRE_CALL_COLLECTIVE);
	for (int k = 0; v && k < v->ncomms; k++) {
		uint32_t comm = v->comms[k].id;

		if (comm)
			rank_calls_add(r, comm,
				       local_worker_last_collective(w, comm),
				       WIRE_CALL_COLLECTIVE);
	}
	rank_calls_add_messages(r);
}

uint32_t rank_calls_put(struct buf *items, const struct local_workers *l,
			size_t i, size_t n, const struct rank_moments *before)
{
	struct rank_calls r = {.items = items};

	for (size_t k = i; k < i + n; k++) {
		r.w = &l->workers[k];
		rank_calls_add_worker(&r, before);
	}
	return r.n;
}

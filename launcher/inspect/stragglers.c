/* stragglers.c: sorts all calls by communicator; the ranks of each wait in the
 * call with the highest number. */
#include "launcher/inspect/stragglers.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "rendezvous/wire.h"

/* ---- cycles of ranks that wait for each other ---- */

struct deadlock_call {
	struct wire_call call;
	const char *host;
};

enum { SHOWN = 16, SEARCHES_MAX = 256 };

/* A rank that waits: its calls are those from first to end. */
struct deadlock_wait {
	size_t call, first, end;
};

struct deadlock {
	struct deadlock_call *calls; /* by rank */
	struct deadlock_wait *waits;
	size_t nwaits;
	size_t *from; /* for each wait in the search, the wait before it */
	size_t *queue;
};

static int deadlock_compare(const void *pa, const void *pb)
{
	const struct deadlock_call *a = pa, *b = pb;

	return a->call.rank < b->call.rank ? -1 : a->call.rank > b->call.rank;
}

static const struct wire_call *deadlock_call(const struct deadlock *d,
					     const struct deadlock_wait *w)
{
	return &d->calls[w->call].call;
}

/* Whether b has begun the other half of a's message. */
static int deadlock_is_met(const struct deadlock *d, const struct wire_call *a,
			   const struct deadlock_wait *b)
{
	for (size_t i = b->first; i < b->end; i++) {
		const struct wire_call *c = &d->calls[i].call;

		if (c->comm == a->comm && c->kind != WIRE_CALL_COLLECTIVE &&
		    c->kind != a->kind && c->peer == a->place)
			return 1;
	}
	return 0;
}

/* Whether the rank that waits in a waits for b's rank. */
static int deadlock_needs(const struct deadlock *d, const struct wire_call *a,
			  const struct deadlock_wait *b)
{
	const struct wire_call *last = NULL; /* NULL: b's rank is not in a's
					      * comm */

	for (size_t i = b->first; i < b->end; i++) {
		const struct wire_call *c = &d->calls[i].call;

		if (c->comm == a->comm && c->kind == WIRE_CALL_COLLECTIVE)
			last = c;
	}
	if (!last || a->rank == last->rank)
		return 0;
	if (a->kind == WIRE_CALL_COLLECTIVE)
		return last->number < a->number;
	return last->place == a->peer && !deadlock_is_met(d, a, b);
}

/* The place in waits of the last rank of a cycle through waits[first], or
 * nwaits: there is none. from leads back. */
static size_t deadlock_search(struct deadlock *d, size_t first)
{
	size_t head = 0, tail = 0;

	for (size_t i = 0; i < d->nwaits; i++)
		d->from[i] = d->nwaits;
	d->queue[tail++] = first;
	while (head < tail) {
		size_t at = d->queue[head++];
		const struct wire_call *a = deadlock_call(d, &d->waits[at]);

		if (at != first && deadlock_needs(d, a, &d->waits[first]))
			return at;
		for (size_t i = 0; i < d->nwaits; i++) {
			if (i == first || d->from[i] != d->nwaits ||
			    !deadlock_needs(d, a, &d->waits[i]))
				continue;
			d->from[i] = at;
			d->queue[tail++] = i;
		}
	}
	return d->nwaits;
}

/* The cycle of the last search, into list; returns its length. */
static size_t deadlock_list(const struct deadlock *d, size_t first, size_t last,
			    size_t *list)
{
	size_t n = 1, k;

	for (size_t at = last; at != first; at = d->from[at])
		n++;
	k = n;
	for (size_t at = last; k; at = d->from[at])
		list[--k] = at;
	return n;
}

static void deadlock_put_cycle(struct buf *out, const struct deadlock *d,
			       const size_t *list, size_t n)
{
	buf_printf(out, "deadlock: %zu ranks wait for each other\n", n);
	for (size_t i = 0; i < n && i < SHOWN; i++) {
		size_t next = list[(i + 1) % n];
		const struct deadlock_call *a =
			&d->calls[d->waits[list[i]].call];

		buf_printf(out, "  rank %u (%s) waits for rank %u in %.*s\n",
			   a->call.rank, a->host,
			   deadlock_call(d, &d->waits[next])->rank,
			   SLICE_FMT(a->call.words));
	}
	if (n > SHOWN)
		buf_printf(out, "  and %zu more\n", n - SHOWN);
}

static void deadlock_find(struct deadlock *d, struct buf *out, size_t *list,
			  size_t *best)
{
	size_t least = 0;

	for (size_t i = 0; i < d->nwaits && i < SEARCHES_MAX && least != 2;
	     i++) {
		size_t last = deadlock_search(d, i), n;

		if (last == d->nwaits)
			continue;
		n = deadlock_list(d, i, last, list);
		if (least && n >= least)
			continue;
		least = n;
		for (size_t k = 0; k < n; k++)
			best[k] = list[k];
	}
	if (least)
		deadlock_put_cycle(out, d, best, least);
}

static void deadlock_add_waits(struct deadlock *d, size_t n)
{
	struct deadlock_wait w = {0};

	for (size_t i = 0; i < n; i++) {
		if (i && d->calls[i].call.rank != d->calls[i - 1].call.rank)
			w.first = i;
		for (w.end = i + 1; w.end < n; w.end++) {
			if (d->calls[w.end].call.rank != d->calls[i].call.rank)
				break;
		}
		w.call = i;
		if (d->calls[i].call.waits == WIRE_CALL_SLEEPS)
			d->waits[d->nwaits++] = w;
	}
}

/* The shortest cycle of ranks each of which waits for the next, as lines; no
 * line if there is none. A rank that sleeps in a call waits for the peer of its
 * message, unless the peer has begun the other half; in a collective, for each
 * rank that has not entered it. -ENOMEM. */
static int deadlock_put(struct buf *out, const struct deadlock_call *calls,
			size_t n)
{
	struct deadlock d = {
		.calls = malloc((n + 1) * sizeof(*d.calls)),
		.waits = malloc((n + 1) * sizeof(*d.waits)),
	};
	size_t *places = malloc((4 * n + 1) * sizeof(*places));
	int rc = d.calls && d.waits && places ? 0 : -ENOMEM;

	if (rc == 0) {
		for (size_t i = 0; i < n; i++)
			d.calls[i] = calls[i];
		qsort(d.calls, n, sizeof(*d.calls), deadlock_compare);
		deadlock_add_waits(&d, n);
		d.from = places;
		d.queue = places + n;
		deadlock_find(&d, out, places + 2 * n, places + 3 * n);
	}
	free(d.calls);
	free(d.waits);
	free(places);
	return rc;
}

enum { NAMED = 16 };

struct straggler_calls {
	struct deadlock_call *list;
	size_t n, room;
};

static int straggler_calls_add(struct straggler_calls *p,
			       const struct dump_node *node)
{
	struct reader r;

	reader_init(&r, node->calls.bytes);
	for (uint32_t i = 0; i < node->calls.count; i++) {
		struct wire_call c = wire_get_call_item(&r);

		if (r.bad)
			break;
		if (p->n == p->room) {
			size_t room = p->room ? 2 * p->room : 64;
			struct deadlock_call *more =
				realloc(p->list, room * sizeof(*more));

			if (!more)
				return -ENOMEM;
			p->list = more;
			p->room = room;
		}
		p->list[p->n++] = (struct deadlock_call){c, node->host};
	}
	return 0;
}

/* Messages last. By communicator, then the highest call first, then by rank. */
static int straggler_call_compare(const void *pa, const void *pb)
{
	const struct wire_call *a = &((const struct deadlock_call *)pa)->call;
	const struct wire_call *b = &((const struct deadlock_call *)pb)->call;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->comm != b->comm)
		return a->comm < b->comm ? -1 : 1;
	if (a->number != b->number)
		return a->number > b->number ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void stragglers_put_comm(struct buf *out, const struct deadlock_call *p,
				size_t n)
{
	size_t there = 0, waiting = 0;

	for (; there < n && p[there].call.number == p->call.number; there++)
		waiting += p[there].call.waits != WIRE_CALL_PASSES;
	if (there == n || !waiting)
		return;
	buf_printf(out, "%zu of %zu ranks have reached %.*s; missing: ", there,
		   n, SLICE_FMT(p->call.words));
	for (size_t i = there; i < n && i < there + NAMED; i++)
		buf_printf(out, "%srank %u (%s)", i > there ? ", " : "",
			   p[i].call.rank, p[i].host);
	if (n - there > NAMED)
		buf_printf(out, " and %zu more", n - there - NAMED);
	buf_put(out, "\n", 1);
}

int stragglers_put(struct buf *out, const struct dump_node *nodes, size_t count)
{
	struct straggler_calls p = {NULL, 0, 0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = straggler_calls_add(&p, &nodes[i]);
	if (rc == 0 && p.n) {
		qsort(p.list, p.n, sizeof(*p.list), straggler_call_compare);
		rc = deadlock_put(out, p.list, p.n);
	}
	for (size_t i = 0, n; rc == 0 && i < p.n; i += n) {
		if (p.list[i].call.kind != WIRE_CALL_COLLECTIVE)
			break;
		for (n = 1; i + n < p.n; n++) {
			if (p.list[i + n].call.comm != p.list[i].call.comm ||
			    p.list[i + n].call.kind != WIRE_CALL_COLLECTIVE)
				break;
		}
		stragglers_put_comm(out, &p.list[i], n);
	}
	free(p.list);
	return rc;
}

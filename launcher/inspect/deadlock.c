/* deadlock.c: a breadth-first search from each rank that waits, over the list
 * of calls. */
#include "launcher/inspect/deadlock.h"

#include <errno.h>
#include <stdlib.h>

enum { SHOWN = 16, SEARCHES_MAX = 256 };

/* A rank that waits: its calls are those from first to end. */
struct deadlock_wait {
	size_t call, first, end;
};

struct deadlock {
	struct deadlock_call *calls; /* by rank */
	struct deadlock_wait *waits;
	size_t nwaits;
	size_t *from; /* for a wait in the search: that before it */
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

/* Whether the rank that waits in a waits for b's. */
static int deadlock_needs(const struct deadlock *d, const struct wire_call *a,
			  const struct deadlock_wait *b)
{
	const struct wire_call *last = NULL; /* NULL: it is not in a's comm */

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

/* The place in waits of the last rank of a circle through waits[first], or
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

/* The circle of the last search, into list; returns its length. */
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

static void deadlock_put_circle(struct buf *out, const struct deadlock *d,
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
		deadlock_put_circle(out, d, best, least);
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

int deadlock_put(struct buf *out, const struct deadlock_call *calls, size_t n)
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

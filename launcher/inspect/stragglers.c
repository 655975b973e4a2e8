/* stragglers.c: sorts all calls by communicator; the ranks of each wait in the
 * call with the highest number. */
#include "launcher/inspect/stragglers.h"

#include <errno.h>
#include <stdlib.h>

#include "launcher/inspect/deadlock.h"

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

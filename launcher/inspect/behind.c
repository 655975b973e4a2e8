/* behind.c: all calls by communicator; the furthest of each is who is waited
 * in. */
#include "launcher/inspect/behind.h"

#include <errno.h>
#include <stdlib.h>

enum { NAMED = 16 };

struct point {
	struct wire_call call;
	const char *host;
};

struct points {
	struct point *list;
	size_t n, room;
};

static int add(struct points *p, const struct asked_node *node)
{
	struct reader r;

	reader_init(&r, node->calls.bytes);
	for (uint32_t i = 0; i < node->calls.count; i++) {
		struct wire_call c = wire_get_call_item(&r);

		if (r.bad)
			break;
		if (p->n == p->room) {
			size_t room = p->room ? 2 * p->room : 64;
			struct point *more =
				realloc(p->list, room * sizeof(*more));

			if (!more)
				return -ENOMEM;
			p->list = more;
			p->room = room;
		}
		p->list[p->n++] = (struct point){c, node->host};
	}
	return 0;
}

/* By communicator; in it the furthest first, then by rank. */
static int compare(const void *pa, const void *pb)
{
	const struct wire_call *a = &((const struct point *)pa)->call;
	const struct wire_call *b = &((const struct point *)pb)->call;

	if (a->comm != b->comm)
		return a->comm < b->comm ? -1 : 1;
	if (a->number != b->number)
		return a->number > b->number ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void put_group(struct buf *out, const struct point *p, size_t n)
{
	size_t there = 0;

	while (there < n && p[there].call.number == p->call.number)
		there++;
	if (there == n)
		return;
	buf_printf(out, "%zu of %zu ranks have come to %.*s; not there: ",
		   there, n, SLICE_FMT(p->call.words));
	for (size_t i = there; i < n && i < there + NAMED; i++)
		buf_printf(out, "%srank %u (%s)", i > there ? ", " : "",
			   p[i].call.rank, p[i].host);
	if (n - there > NAMED)
		buf_printf(out, " and %zu more", n - there - NAMED);
	buf_put(out, "\n", 1);
}

int behind_put(struct buf *out, const struct ask *a)
{
	struct points p = {NULL, 0, 0};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < a->n; i++)
		rc = add(&p, &a->nodes[i]);
	if (rc == 0 && p.n)
		qsort(p.list, p.n, sizeof(*p.list), compare);
	for (size_t i = 0, n; rc == 0 && i < p.n; i += n) {
		for (n = 1; i + n < p.n; n++) {
			if (p.list[i + n].call.comm != p.list[i].call.comm)
				break;
		}
		put_group(out, &p.list[i], n);
	}
	free(p.list);
	return rc;
}

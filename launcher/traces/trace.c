/* trace.c: sorts the calls by group and number; those of one number must be the
 * same. */
#include "launcher/traces/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MISMATCHES_SHOWN = 8, CALLS_SHOWN = 8, RANKS_SHOWN = 1024 };

void trace_release(struct trace *t)
{
	for (size_t i = 0; i < t->n; i++) {
		free(t->calls[i].words);
		free(t->calls[i].where);
	}
	free(t->calls);
	*t = (struct trace){NULL};
}

int trace_add(struct trace *t, const struct trace_call *c)
{
	struct trace_call *to;

	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 256;

		to = realloc(t->calls, room * sizeof(*to));
		if (!to)
			return -ENOMEM;
		t->calls = to;
		t->room = room;
	}
	to = &t->calls[t->n];
	*to = *c;
	to->words = strdup(c->words);
	to->where = strdup(c->where);
	if (to->words && to->where) {
		t->n++;
		return 0;
	}
	free(to->words);
	free(to->where);
	return -ENOMEM;
}

uint64_t trace_hash(uint64_t before, struct slice bytes)
{
	uint64_t h = before ? before : 14695981039346656037u;

	for (size_t i = 0; i < bytes.len; i++)
		h = (h ^ (unsigned char)bytes.data[i]) * 1099511628211u;
	return h;
}

/* By group, number, call and rank. */
static int trace_compare(const void *pa, const void *pb)
{
	const struct trace_call *a = pa, *b = pb;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->same != b->same)
		return a->same < b->same ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

void trace_put_ranks(struct buf *out, const uint32_t *ranks, size_t n)
{
	size_t shown = 0;

	buf_printf(out, n == 1 || (n && ranks[0] == ranks[n - 1]) ? "rank "
								  : "ranks ");
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n; end++) {
			if (ranks[end] > ranks[end - 1] + 1)
				break;
		}
		if (shown++ == 16) {
			buf_printf(out, " and more");
			return;
		}
		buf_printf(out, "%s%u", i ? ", " : "", ranks[i]);
		if (ranks[end - 1] > ranks[i])
			buf_printf(out, "%s%u",
				   ranks[end - 1] > ranks[i] + 1 ? "-" : ", ",
				   ranks[end - 1]);
	}
}

/* How many calls, from c on, are the same as it. */
static size_t trace_count_same(const struct trace_call *c, size_t n)
{
	size_t i = 1;

	while (i < n && c[i].same == c->same)
		i++;
	return i;
}

static void trace_put_same(struct buf *out, const struct trace_call *c,
			   size_t n)
{
	uint32_t ranks[RANKS_SHOWN];
	size_t shown = n < RANKS_SHOWN ? n : RANKS_SHOWN;

	for (size_t i = 0; i < shown; i++)
		ranks[i] = c[i].rank;
	buf_printf(out, "  %s: ", c->words);
	trace_put_ranks(out, ranks, shown);
	if (n > shown)
		buf_printf(out, " and %zu more", n - shown);
	if (c->where[0])
		buf_printf(out, " (%s)", c->where);
	buf_put(out, "\n", 1);
}

/* Whether a rank made several of n calls, which then are parts of one. */
static int trace_has_rank_twice(const struct trace_call *c, size_t n)
{
	for (size_t i = 0; i < n && i < RANKS_SHOWN; i++) {
		for (size_t k = i + 1; k < n && k < RANKS_SHOWN; k++) {
			if (c[k].rank == c[i].rank)
				return 1;
		}
	}
	return 0;
}

/* n calls of one number; 1 if they differ. */
static int trace_put_mismatch(struct buf *out, const struct trace_call *c,
			      size_t n)
{
	size_t i = trace_count_same(c, n);

	if (i == n || trace_has_rank_twice(c, n))
		return 0;
	buf_printf(out, "mismatch: ranks made different calls\n");
	trace_put_same(out, c, i);
	for (int shown = 1; i < n; shown++) {
		size_t same = trace_count_same(c + i, n - i);

		if (shown == CALLS_SHOWN) {
			buf_printf(out, "  and %zu more calls\n", n - i);
			break;
		}
		trace_put_same(out, c + i, same);
		i += same;
	}
	return 1;
}

void trace_put_mismatches(struct buf *out, struct trace *t)
{
	const struct trace_call *c = t->calls;
	int shown = 0;

	if (t->n)
		qsort(t->calls, t->n, sizeof(*t->calls), trace_compare);
	for (size_t i = 0, end; i < t->n && shown < MISMATCHES_SHOWN; i = end) {
		for (end = i + 1; end < t->n; end++) {
			if (c[end].group != c[i].group ||
			    c[end].number != c[i].number)
				break;
		}
		if (!trace_put_mismatch(out, c + i, end - i))
			continue;
		shown++;
		/* what follows in this group follows from it */
		while (end < t->n && c[end].group == c[i].group)
			end++;
	}
}

/* counts.c: the collectives with a count for each rank. The counts are drawn
 * from the call's key: equal, random, mostly 0, or all data between one pair of
 * ranks. */
#include <string.h>

#include "tests/fuzz_sdk/fuzz.h"

int has_counts(enum kind kind)
{
	return kind == ALL_GATHER_V || kind == REDUCE_SCATTER_V ||
	       kind == ALL_TO_ALL_V;
}

/* The elements that one rank sends another, mistakes aside. If all ranks pass
 * the same counts, `from` is 0. */
static size_t block(const struct call *c, int from, int to)
{
	uint64_t x = mix(c->key ^ (uint64_t)(from * RANKS_MAX + to + 1));
	unsigned n = (unsigned)c->group.n;

	switch (c->key >> 32 & 3) {
	case 0:
		return c->count;
	case 1:
		return x % (2 * c->count + 1);
	case 2:
		return x % 3 ? 0 : x >> 8 & 3 ? c->count : 3;
	default:
		if (c->kind == ALL_TO_ALL_V && (unsigned)from != c->key % n)
			return 0;
		return (unsigned)to == (c->key >> 8) % n ? c->count * n : 0;
	}
}

static void draw_counts(const struct call *c, size_t *sends, size_t *receives)
{
	int me = c->group.rank, same = c->kind != ALL_TO_ALL_V;

	for (int r = 0; r < c->group.n; r++) {
		sends[r] = block(c, same ? 0 : me, r) + (c->wrong == r + 1);
		receives[r] = same ? sends[r] : block(c, r, me);
	}
}

static size_t sum(const size_t *counts, int n)
{
	size_t all = 0;

	for (int r = 0; r < n; r++)
		all += counts[r];
	return all;
}

size_t counts_sent(const struct call *c)
{
	size_t sends[RANKS_MAX], receives[RANKS_MAX];

	draw_counts(c, sends, receives);
	return c->kind == ALL_GATHER_V ? sends[c->group.rank]
				       : sum(sends, c->group.n);
}

size_t counts_received(const struct call *c)
{
	size_t sends[RANKS_MAX], receives[RANKS_MAX];

	draw_counts(c, sends, receives);
	return c->kind == REDUCE_SCATTER_V ? receives[c->group.rank]
					   : sum(receives, c->group.n);
}

void counts_prepare(const struct call *c, struct buffer *send,
		    struct buffer *recv, char **in, char **out)
{
	size_t sends[RANKS_MAX], receives[RANKS_MAX];
	size_t elem = ddp_type_size(c->type), n = counts_sent(c);
	size_t sent = n * elem, got = counts_received(c) * elem, own;
	int in_place = c->kind != ALL_TO_ALL_V && rng_chance(&fuzz.own, 40);

	draw_counts(c, sends, receives);
	own = sum(sends, c->group.rank) * elem;
	if (!in_place || c->kind == ALL_GATHER_V) {
		*recv = buffer_new(got);
		*out = recv->data;
		*in = recv->data + own;
	}
	if (!in_place || c->kind == REDUCE_SCATTER_V) {
		*send = buffer_new(sent);
		*in = send->data;
		if (in_place)
			*out = send->data + own;
	}
	values_fill(c, c->group.rank, 0, n, *in);
	if (!sent && rng_chance(&fuzz.own, 30))
		*in = NULL;
	if (!got && rng_chance(&fuzz.own, 30))
		*out = NULL;
}

int counts_issue(const struct call *c, const void *in, void *out,
		 ddp_request **request)
{
	size_t sends[RANKS_MAX], receives[RANKS_MAX];
	ddp_comm *g = c->group.comm;
	int rc;

#define EITHER(name, ...)                                                     \
	(request ? name##_async(__VA_ARGS__, request) : name(__VA_ARGS__))
	draw_counts(c, sends, receives);
	if (c->kind == ALL_GATHER_V)
		rc = EITHER(ddp_all_gather_v, g, in, out, sends, c->type);
	else if (c->kind == REDUCE_SCATTER_V)
		rc = EITHER(ddp_reduce_scatter_v, g, in, out, sends, c->type,
			    c->op);
	else
		rc = EITHER(ddp_all_to_all_v, g, in, sends, out, receives,
			    c->type);
#undef EITHER
	/* libddp must not keep a pointer to them */
	memset(sends, 0xff, sizeof(sends));
	memset(receives, 0xff, sizeof(receives));
	return rc;
}

void counts_check(const struct call *c, const char *out)
{
	size_t sends[RANKS_MAX], receives[RANKS_MAX], at = 0, from = 0;
	size_t elem = ddp_type_size(c->type);
	int me = c->group.rank;

	draw_counts(c, sends, receives);
	if (c->kind == REDUCE_SCATTER_V) {
		values_check_reduced(c, sum(sends, me), sends[me], out);
		return;
	}
	for (int r = 0; r < c->group.n; r++) {
		from = 0;
		for (int k = 0; k < me && c->kind == ALL_TO_ALL_V; k++)
			from += block(c, r, k);
		values_check_copied(c, r, from, receives[r], out + at * elem,
				    at);
		at += receives[r];
	}
}

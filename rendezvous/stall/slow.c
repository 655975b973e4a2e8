/* slow.c: compares the shares of time that ranks wait. All ranks spend the time
 * of the exchange itself in a call; only those that wait for a slow one spend
 * more. */
#include "rendezvous/stall/slow.h"

#include <stdio.h>
#include <string.h>

enum { WHOLE = 1000 };

/* How many ranks wait for each thousandth of the time. */
struct slow_counts {
	uint32_t n, of[WHOLE + 1];
	uint32_t least; /* the rank that waits least */
};

static int slow_is_live(const struct stall *t, uint32_t rank)
{
	return t->ranks[rank].known && !t->ranks[rank].ended;
}

static uint32_t slow_waited(const struct stall *t, uint32_t rank)
{
	int32_t waited = t->ranks[rank].at.waited;

	return waited < WHOLE ? (uint32_t)waited : WHOLE;
}

/* 0: unknown, because there is no report of some rank yet. */
static int slow_count(const struct stall *t, struct slow_counts *c)
{
	*c = (struct slow_counts){0};
	for (uint32_t i = 0; i < t->world; i++) {
		if (t->ranks[i].ended)
			continue;
		if (!t->ranks[i].known || t->ranks[i].at.waited < 0)
			return 0;
		c->of[slow_waited(t, i)]++;
		if (!c->n++ || slow_waited(t, i) < slow_waited(t, c->least))
			c->least = i;
	}
	return c->n > 1;
}

/* By how much at least half of the other ranks wait longer than this one. */
static uint32_t slow_share(const struct stall *t, struct slow_counts *c,
			   uint32_t rank)
{
	uint32_t own = slow_waited(t, rank), seen = 0, share = 0;
	/* as many as the lower median has below it, of the others */
	uint32_t below = (c->n - 2) / 2;

	c->of[own]--;
	while (share < WHOLE && (seen += c->of[share]) <= below)
		share++;
	c->of[own]++;
	return share > own ? share - own : 0;
}

/* ---- words ---- */

/* Whether all ranks of its host, and more than one, are as slow: then *first
 * and *last are the lowest and the highest. */
static int slow_is_node(const struct stall *t, const struct slow_news *x,
			uint32_t *first, uint32_t *last)
{
	const char *host = t->host(t->arg, x->rank);
	uint32_t most = slow_waited(t, x->rank) + x->share / 2;
	uint32_t n = 0, others = 0;

	for (uint32_t i = 0; i < t->world; i++) {
		if (!slow_is_live(t, i))
			continue;
		if (strcmp(t->host(t->arg, i), host) != 0) {
			others++;
			continue;
		}
		if (slow_waited(t, i) > most)
			return 0;
		if (!n++)
			*first = i;
		*last = i;
	}
	return n > 1 && others;
}

static void slow_describe(const struct stall *t, struct slow_news *x)
{
	const struct wire_rank *r = &t->ranks[x->rank].at;
	const char *host = t->host(t->arg, x->rank);
	uint32_t first = 0, last = 0;
	int n;

	if (slow_is_node(t, x, &first, &last))
		n = snprintf(x->text, sizeof(x->text),
			     "node %s (ranks %u to %u) slows the job down: the "
			     "ranks of other nodes wait for it %u %% of the "
			     "time",
			     host, first, last, x->share / 10);
	else
		n = snprintf(x->text, sizeof(x->text),
			     "rank %u on %s (pid %lld) slows the job down: the "
			     "other ranks wait for it %u %% of the time",
			     x->rank, host, (long long)r->pid, x->share / 10);
	if (r->cause.len && n > 0 && (size_t)n < sizeof(x->text))
		snprintf(x->text + n, sizeof(x->text) - (size_t)n, "; %.*s",
			 SLICE_FMT(r->cause));
}

static void slow_describe_end(const struct stall *t, struct slow_news *x)
{
	snprintf(x->text, sizeof(x->text),
		 "rank %u on %s (pid %lld) no longer slows the job down",
		 x->rank, t->host(t->arg, x->rank),
		 (long long)t->ranks[x->rank].at.pid);
}

/* Drops a rank that has ended, or is no longer slow. */
static void slow_check_end(struct slow *s, const struct stall *t,
			   struct slow_news *out)
{
	if (!s->is_shown && out->share <= SLOW_SHARE)
		s->has_rank = 0;
	if (!s->is_shown || out->share >= SLOW_SHARE_OVER)
		return;
	*s = (struct slow){0};
	out->is_over = 1;
	slow_describe_end(t, out);
}

void slow_check(struct slow *s, const struct stall *t, uint64_t now_ms,
		struct slow_news *out)
{
	struct slow_counts c;

	*out = (struct slow_news){0};
	if (s->has_rank && !slow_is_live(t, s->rank))
		*s = (struct slow){0};
	if (!slow_count(t, &c))
		return;
	out->has_slowest = 1;
	out->slowest = c.least;
	out->slowest_share = slow_share(t, &c, c.least);
	out->rank = s->has_rank ? s->rank : c.least;
	out->share = slow_share(t, &c, out->rank);
	if (s->has_rank)
		slow_check_end(s, t, out);
	else if (out->share > SLOW_SHARE)
		*s = (struct slow){1, 0, out->rank, now_ms};
	if (!s->has_rank || s->is_shown ||
	    now_ms - s->since_ms < SLOW_PATIENCES * t->patience_ms)
		return;
	s->is_shown = 1;
	out->is_slow = 1;
	slow_describe(t, out);
}

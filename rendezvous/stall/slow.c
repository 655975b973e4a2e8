/* slow.c: compares the shares of time that ranks wait, in collectives of all
 * ranks and of each group. All ranks spend the time of the exchange itself in a
 * call; only those that wait for a slow one spend more.
 *
 * A rank that is late in one communicator because it waited in another is not
 * the slow one: what it waits there beyond the least is subtracted. */
#include "rendezvous/stall/stall.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE = 1000, GROUP_NAME_MAX = 41 };

/* The time that a rank waits in a communicator; comm 0 has all ranks. */
struct slow_wait {
	uint32_t comm, rank, size, waited;
};

struct slow_waits {
	struct slow_wait *all; /* by communicator, then by waited */
	size_t n;
	uint32_t *excess; /* each rank's, summed over its communicators */
};

struct slow_found {
	int is_set;
	uint32_t comm, rank, share;
};

static int slow_is_live(const struct stall *t, uint32_t rank)
{
	return t->ranks[rank].known && !t->ranks[rank].ended;
}

static uint32_t slow_permille(int32_t waited)
{
	return waited < WHOLE ? (uint32_t)waited : WHOLE;
}

static uint32_t slow_waited(const struct stall *t, uint32_t rank)
{
	return slow_permille(t->ranks[rank].at.waited);
}

static void slow_add(struct slow_waits *w, const struct stall *t, uint32_t rank)
{
	const struct wire_items *groups = &t->ranks[rank].at.groups;
	struct reader r;

	w->all[w->n++] = (struct slow_wait){0, rank, 0, slow_waited(t, rank)};
	reader_init(&r, groups->bytes);
	for (uint32_t i = 0; i < groups->count; i++) {
		struct wire_group g = wire_get_group_item(&r);

		if (g.comm && g.waited >= 0)
			w->all[w->n++] = (struct slow_wait){
				g.comm, rank, g.size, slow_permille(g.waited)};
	}
}

static int slow_compare(const void *a, const void *b)
{
	const struct slow_wait *x = a, *y = b;

	if (x->comm != y->comm)
		return x->comm < y->comm ? -1 : 1;
	if (x->waited != y->waited)
		return x->waited < y->waited ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* How many from i on are of the same communicator. */
static size_t slow_run(const struct slow_waits *w, size_t i)
{
	size_t n = 1;

	while (i + n < w->n && w->all[i + n].comm == w->all[i].comm)
		n++;
	return n;
}

/* Whether all its ranks have reported. */
static int slow_is_whole(const struct slow_wait *x, size_t n)
{
	return x->comm ? n > 1 && n == x->size : n > 1;
}

static void slow_sum_excess(struct slow_waits *w)
{
	for (size_t i = 0, n; i < w->n; i += n) {
		n = slow_run(w, i);
		for (size_t k = 0; slow_is_whole(&w->all[i], n) && k < n; k++)
			w->excess[w->all[i + k].rank] +=
				w->all[i + k].waited - w->all[i].waited;
	}
}

static void slow_waits_release(struct slow_waits *w)
{
	free(w->all);
	free(w->excess);
}

/* 0: unknown, because there is no report of some rank yet, or no memory. */
static int slow_waits_read(struct slow_waits *w, const struct stall *t)
{
	size_t n = 0, live = 0;

	*w = (struct slow_waits){0};
	for (uint32_t i = 0; i < t->world; i++) {
		if (t->ranks[i].ended)
			continue;
		if (!t->ranks[i].known || t->ranks[i].at.waited < 0)
			return 0;
		live++;
		n += 1 + t->ranks[i].at.groups.count;
	}
	if (live < 2)
		return 0;
	w->all = malloc(n * sizeof(*w->all));
	w->excess = calloc(t->world, sizeof(*w->excess));
	for (uint32_t i = 0; w->all && w->excess && i < t->world; i++)
		if (slow_is_live(t, i))
			slow_add(w, t, i);
	if (!w->n)
		return 0;
	qsort(w->all, w->n, sizeof(*w->all), slow_compare);
	slow_sum_excess(w);
	return 1;
}

/* By how much at least half of the other ranks of a communicator wait longer
 * than its k-th rank, less the time that this rank waits in other
 * communicators. */
static uint32_t slow_share(const struct slow_waits *w,
			   const struct slow_wait *run, size_t n, size_t k)
{
	/* the number of other ranks below their lower median */
	size_t below = (n - 2) / 2;
	uint32_t here = run[k].waited - run[0].waited;
	uint32_t own = run[k].waited + w->excess[run[k].rank] - here;
	uint32_t median = run[below < k ? below : below + 1].waited;

	return median > own ? median - own : 0;
}

/* The communicator in which the others wait longest for that rank, or, with
 * is_any, for any rank. */
static void slow_find(const struct slow_waits *w, int is_any, uint32_t rank,
		      struct slow_found *out)
{
	*out = (struct slow_found){0};
	for (size_t i = 0, n; i < w->n; i += n) {
		n = slow_run(w, i);
		for (size_t k = 0; slow_is_whole(&w->all[i], n) && k < n; k++) {
			const struct slow_wait *x = &w->all[i + k];
			uint32_t share;

			if (!is_any && x->rank != rank)
				continue;
			share = slow_share(w, &w->all[i], n, k);
			if (!out->is_set || share > out->share)
				*out = (struct slow_found){1, x->comm, x->rank,
							   share};
		}
	}
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

/* The group's name, as that rank reports it, into out[]; returns out. */
static const char *slow_group_name(const struct stall *t, uint32_t rank,
				   uint32_t comm, char out[GROUP_NAME_MAX])
{
	const struct wire_items *groups = &t->ranks[rank].at.groups;
	struct reader r;

	snprintf(out, GROUP_NAME_MAX, "?");
	reader_init(&r, groups->bytes);
	for (uint32_t i = 0; i < groups->count; i++) {
		struct wire_group g = wire_get_group_item(&r);

		if (g.comm == comm)
			snprintf(out, GROUP_NAME_MAX, "%.*s",
				 SLICE_FMT(g.name));
	}
	for (char *p = out; *p; p++) /* it could disturb a terminal */
		if (*p < ' ' || *p > '~')
			*p = '?';
	return out;
}

static void slow_describe(const struct stall *t, uint32_t comm,
			  struct slow_news *x)
{
	char name[GROUP_NAME_MAX];
	const struct wire_rank *r = &t->ranks[x->rank].at;
	const char *host = t->host(t->arg, x->rank);
	uint32_t first = 0, last = 0;
	int n;

	if (!comm && slow_is_node(t, x, &first, &last))
		n = snprintf(x->text, sizeof(x->text),
			     "node %s (ranks %u to %u) slows the job down: the "
			     "ranks of other nodes wait for it %u %% of the "
			     "time",
			     host, first, last, x->share / 10);
	else
		n = snprintf(x->text, sizeof(x->text),
			     "rank %u on %s (pid %lld) slows the job down: the "
			     "other ranks%s%s wait for it %u %% of the time",
			     x->rank, host, (long long)r->pid,
			     comm ? " of group " : "",
			     comm ? slow_group_name(t, x->rank, comm, name)
				  : "",
			     x->share / 10);
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
	struct slow_found least, found;
	struct slow_waits w;
	int is_known;

	*out = (struct slow_news){0};
	if (s->has_rank && !slow_is_live(t, s->rank))
		*s = (struct slow){0};
	is_known = slow_waits_read(&w, t);
	if (is_known) {
		slow_find(&w, 1, 0, &least);
		found = least;
		if (s->has_rank)
			slow_find(&w, 0, s->rank, &found);
	}
	slow_waits_release(&w);
	if (!is_known)
		return;
	out->has_slowest = 1;
	out->slowest = least.rank;
	out->slowest_share = least.share;
	out->rank = found.rank;
	out->share = found.share;
	if (s->has_rank)
		slow_check_end(s, t, out);
	else if (out->share > SLOW_SHARE)
		*s = (struct slow){1, 0, out->rank, now_ms};
	if (!s->has_rank || s->is_shown ||
	    now_ms - s->since_ms < SLOW_PATIENCES * t->patience_ms)
		return;
	s->is_shown = 1;
	out->is_slow = 1;
	slow_describe(t, found.comm, out);
}

/* rank_list.c: parses a list into sorted ranges and looks ranks up in it. */
#include "launcher/output/rank_list.h"

#include <stdlib.h>
#include <string.h>

static const char *rank_list_skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* Returns what follows the digits, or NULL. */
static const char *rank_list_parse_rank(const char *p, uint32_t *rank)
{
	size_t digits = strspn(p, "0123456789");
	uint64_t v = 0;

	for (size_t i = 0; i < digits; i++) {
		v = v * 10 + (uint64_t)(p[i] - '0');
		if (v > RANK_LIST_LAST)
			return NULL;
	}
	*rank = (uint32_t)v;
	return digits ? p + digits : NULL;
}

/* One number or range that ends at end. */
static int rank_list_parse_item(struct rank_range *r, const char *p,
				const char *end)
{
	p = rank_list_parse_rank(rank_list_skip_blanks(p), &r->first);
	if (!p)
		return -1;
	r->last = r->first;
	p = rank_list_skip_blanks(p);
	if (p < end && *p == '-') {
		p = rank_list_parse_rank(rank_list_skip_blanks(p + 1),
					 &r->last);
		if (!p)
			return -1;
		p = rank_list_skip_blanks(p);
	}
	return p == end && r->first <= r->last ? 0 : -1;
}

static int rank_list_compare(const void *a, const void *b)
{
	uint32_t x = ((const struct rank_range *)a)->first;
	uint32_t y = ((const struct rank_range *)b)->first;

	return (x > y) - (x < y);
}

static void rank_list_sort_and_merge(struct rank_list *l)
{
	size_t kept = 0;

	qsort(l->ranges, l->n, sizeof(*l->ranges), rank_list_compare);
	for (size_t i = 1; i < l->n; i++) {
		struct rank_range *last = &l->ranges[kept];

		if (l->ranges[i].first > last->last + 1)
			l->ranges[++kept] = l->ranges[i];
		else if (l->ranges[i].last > last->last)
			last->last = l->ranges[i].last;
	}
	l->n = kept + 1;
}

static size_t rank_list_count_items(const char *text)
{
	size_t n = 1;

	for (; *text; text++)
		n += *text == ',';
	return n;
}

int rank_list_parse(struct rank_list *l, const char *text, const char *what,
		    struct err *e)
{
	const char *p = text;

	*l = (struct rank_list){NULL, 0};
	l->ranges = calloc(rank_list_count_items(text), sizeof(*l->ranges));
	if (!l->ranges)
		return err_no_memory(e, "%s", what);
	for (;;) {
		size_t len = strcspn(p, ",");

		if (rank_list_parse_item(&l->ranges[l->n++], p, p + len) < 0) {
			rank_list_release(l);
			return err_set(
				e, ERR_USAGE,
				"%s '%s': '%.*s' is neither a rank nor a range "
				"of ranks; write, for example, 0,4-7",
				what, text, (int)len, p);
		}
		if (!p[len])
			break;
		p += len + 1;
	}
	rank_list_sort_and_merge(l);
	return 0;
}

void rank_list_release(struct rank_list *l)
{
	free(l->ranges);
	*l = (struct rank_list){NULL, 0};
}

int rank_list_contains(const struct rank_list *l, uint32_t rank)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rank > l->ranges[middle].last)
			low = middle + 1;
		else if (rank < l->ranges[middle].first)
			high = middle;
		else
			return 1;
	}
	return 0;
}

uint32_t rank_list_last(const struct rank_list *l)
{
	return l->ranges[l->n - 1].last;
}

size_t rank_list_count(const struct rank_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += l->ranges[i].last - l->ranges[i].first + 1;
	return n;
}

uint32_t rank_list_below(const struct rank_list *l, uint32_t rank)
{
	uint32_t n = 0;

	for (size_t i = 0; i < l->n && l->ranges[i].first < rank; i++) {
		uint32_t end = l->ranges[i].last < rank
				       ? l->ranges[i].last + 1 : rank;

		n += end - l->ranges[i].first;
	}
	return n;
}

int rank_list_common(const struct rank_list *a, const struct rank_list *b,
		     uint32_t *rank)
{
	size_t i = 0, k = 0;

	while (i < a->n && k < b->n) {
		const struct rank_range *x = &a->ranges[i], *y = &b->ranges[k];

		*rank = x->first > y->first ? x->first : y->first;
		if (*rank <= x->last && *rank <= y->last)
			return 1;
		if (x->last < y->last)
			i++;
		else
			k++;
	}
	return 0;
}

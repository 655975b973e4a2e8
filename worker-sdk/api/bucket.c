/* bucket.c: groups from the end, where the backward pass starts. */
#include "worker-sdk/api/bucket.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t buckets_count_of(const struct ddp__buckets *b, int i)
{
	return b->at[i + 1] - b->at[i];
}

/* Appends `now` to the list; its members are the parameters in first..end-1
 * without a bucket. */
static void buckets_append(struct ddp__buckets *b,
			   const struct ddp__bucket *now)
{
	struct ddp__bucket *to = &b->list[b->count];

	*to = *now;
	to->at = b->at[to->first];
	for (int i = to->first; i < to->end; i++)
		if (b->of[i] < 0) {
			b->of[i] = b->count;
			to->members++;
		}
	b->count++;
}

/* Gives each large gradient a bucket of its own, and groups the small gradients
 * between them. A bucket's position in the list is that of its last member to
 * become ready. */
static void buckets_cut_spans(struct ddp__buckets *b, size_t most, size_t alone)
{
	struct ddp__bucket small = {0};

	memset(b->of, -1, (size_t)b->n * sizeof(*b->of));
	for (int i = b->n - 1; i >= 0; i--) {
		struct ddp__bucket own = {.first = i, .end = i + 1,
					  .count = buckets_count_of(b, i)};

		if (own.count >= alone) {
			buckets_append(b, &own);
			continue;
		}
		if (small.end && own.count && small.count &&
		    own.count + small.count > most) {
			buckets_append(b, &small);
			small.end = 0;
		}
		if (!small.end)
			small = (struct ddp__bucket){.end = i + 1};
		small.first = i;
		small.count += own.count;
	}
	if (small.end)
		buckets_append(b, &small);
}

static void buckets_cut_arena(struct ddp__buckets *b, size_t first,
			      size_t later)
{
	struct ddp__bucket *now = NULL;

	b->count = 0;
	for (int i = b->n - 1; i >= 0; i--) {
		size_t count = buckets_count_of(b, i);
		size_t most = b->count > 1 ? later : first;

		/* a parameter without elements fits into any bucket */
		if (!now || (count && now->count &&
			     (count > most || now->count > most - count))) {
			now = &b->list[b->count++];
			*now = (struct ddp__bucket){.end = i + 1};
		}
		now->first = i;
		now->at = b->at[i];
		now->count += count;
		now->members++;
		b->of[i] = b->count - 1;
	}
}

int ddp__buckets_init(struct ddp__buckets *b, const size_t *counts, int n,
		      size_t first, size_t later, size_t alone)
{
	size_t most = (size_t)n;

	memset(b, 0, sizeof(*b));
	b->n = n;
	b->at = calloc(most + 1, sizeof(*b->at));
	b->of = calloc(most + 1, sizeof(*b->of));
	b->list = calloc(most + 1, sizeof(*b->list));
	b->ready = calloc(most + 1, 1);
	if (!b->at || !b->of || !b->list || !b->ready) {
		ddp__buckets_release(b);
		return -ENOMEM;
	}
	for (int i = 0; i < n; i++) {
		if (counts[i] > SIZE_MAX / 16 - b->at[i]) {
			ddp__buckets_release(b);
			return -EOVERFLOW;
		}
		b->at[i + 1] = b->at[i] + counts[i];
	}
	if (alone < SIZE_MAX)
		buckets_cut_spans(b, first, alone);
	else
		buckets_cut_arena(b, first, later);
	for (int k = 1; k < b->count; k++)
		b->list[k].from = b->list[k - 1].from + b->list[k - 1].count;
	ddp__buckets_reset(b);
	return 0;
}

void ddp__buckets_release(struct ddp__buckets *b)
{
	free(b->at);
	free(b->of);
	free(b->list);
	free(b->ready);
	memset(b, 0, sizeof(*b));
}

void ddp__buckets_reset(struct ddp__buckets *b)
{
	b->taken = 0;
	memset(b->ready, 0, (size_t)b->n);
	for (int i = 0; i < b->count; i++)
		b->list[i].missing = b->list[i].members;
}

int ddp__buckets_ready(struct ddp__buckets *b, int i)
{
	if (b->ready[i])
		return 0;
	b->ready[i] = 1;
	b->list[b->of[i]].missing--;
	return 1;
}

int ddp__buckets_take(struct ddp__buckets *b)
{
	if (b->taken == b->count || b->list[b->taken].missing)
		return -1;
	return b->taken++;
}

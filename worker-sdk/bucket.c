/* bucket.c: cutting from the end, where the backward pass begins. */
#include "worker-sdk/bucket.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void cut(struct ddp__buckets *b, size_t first, size_t later)
{
	struct ddp__bucket *now = NULL;

	b->count = 0;
	for (int i = b->n - 1; i >= 0; i--) {
		size_t count = b->at[i + 1] - b->at[i];
		size_t most = b->count > 1 ? later : first;

		/* what has no elements fits everywhere */
		if (!now || (count && now->count &&
			     (count > most || now->count > most - count))) {
			now = &b->list[b->count++];
			*now = (struct ddp__bucket){.end = i + 1};
		}
		now->first = i;
		now->at = b->at[i];
		now->count += count;
		b->of[i] = b->count - 1;
	}
}

int ddp__buckets_init(struct ddp__buckets *b, const size_t *counts, int n,
		      size_t first, size_t later)
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
	cut(b, first, later);
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
		b->list[i].missing = b->list[i].end - b->list[i].first;
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

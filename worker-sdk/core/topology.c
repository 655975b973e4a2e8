/* topology.c: ranks grouped by host. */
#include "worker-sdk/core/topology.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct named {
	struct slice id;
	int rank;
};

static int topology_compare_ids(const void *pa, const void *pb)
{
	const struct named *a = pa, *b = pb;
	size_t len = a->id.len < b->id.len ? a->id.len : b->id.len;
	int diff = len ? memcmp(a->id.data, b->id.data, len) : 0;

	if (diff)
		return diff;
	if (a->id.len != b->id.len)
		return a->id.len < b->id.len ? -1 : 1;
	return a->rank - b->rank;
}

/* leader[r]: the lowest rank with the same id as rank r. */
static void topology_find_leaders(struct named *sorted, int n, int *leader)
{
	int first = 0;

	qsort(sorted, (size_t)n, sizeof(*sorted), topology_compare_ids);
	for (int i = 0; i < n; i++) {
		if (!slice_is_equal(sorted[first].id, sorted[i].id))
			first = i;
		leader[sorted[i].rank] = sorted[first].rank;
	}
}

int ddp__topology_init(struct ddp__topology *t, const struct slice *ids,
		       int world_size)
{
	size_t n = (size_t)world_size;
	struct named *sorted = calloc(n, sizeof(*sorted));
	int at = 0, rc = -ENOMEM;

	memset(t, 0, sizeof(*t));
	t->world_size = world_size;
	t->hosts = calloc(n, sizeof(*t->hosts));
	t->host_of = calloc(n, sizeof(int));
	t->index_of = calloc(n, sizeof(int));
	t->order = calloc(n, sizeof(int));
	if (!sorted || !t->hosts || !t->host_of || !t->index_of || !t->order)
		goto out;
	for (int r = 0; r < world_size; r++)
		sorted[r] = (struct named){ids[r], r};
	topology_find_leaders(sorted, world_size, t->host_of);
	/* A leader comes before the other ranks of its host, so its number is
	 * known. */
	for (int r = 0; r < world_size; r++) {
		int leader = t->host_of[r];

		t->host_of[r] = leader == r ? t->nhosts++ : t->host_of[leader];
		t->index_of[r] = t->hosts[t->host_of[r]].n++;
	}
	for (int h = 0; h < t->nhosts; h++) {
		t->hosts[h].ranks = t->order + at;
		t->hosts[h].first = at;
		at += t->hosts[h].n;
	}
	t->in_order = 1;
	for (int r = 0; r < world_size; r++) {
		const struct ddp__host *h = &t->hosts[t->host_of[r]];

		h->ranks[t->index_of[r]] = r;
		if (h->first + t->index_of[r] != r)
			t->in_order = 0;
	}
	rc = 0;
out:
	free(sorted);
	if (rc)
		ddp__topology_release(t);
	return rc;
}

void ddp__topology_release(struct ddp__topology *t)
{
	free(t->hosts);
	free(t->host_of);
	free(t->index_of);
	free(t->order);
	memset(t, 0, sizeof(*t));
}

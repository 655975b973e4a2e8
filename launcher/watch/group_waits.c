/* group_waits.c: few groups for each worker, found by their ids. */
#include "launcher/watch/group_waits.h"

#include <string.h>

static struct group_wait *group_waits_find(struct group_waits *g, uint32_t id)
{
	for (int i = 0; i < g->n; i++)
		if (g->of[i].id == id)
			return &g->of[i];
	return NULL;
}

static int group_waits_has(const struct flight_view *v, uint32_t id)
{
	for (int i = 0; i < v->ncomms; i++)
		if (v->comms[i].id == id)
			return 1;
	return 0;
}

/* Drops the groups that were freed. */
static void group_waits_drop(struct group_waits *g, const struct flight_view *v)
{
	int kept = 0;

	for (int i = 0; i < g->n; i++) {
		if (!group_waits_has(v, g->of[i].id))
			continue;
		if (kept != i)
			g->of[kept] = g->of[i];
		kept++;
	}
	g->n = kept;
}

void group_waits_add(struct group_waits *g, const struct flight_view *v,
		     uint64_t most_ns)
{
	group_waits_drop(g, v);
	for (int i = 0; i < v->ncomms; i++) {
		uint32_t id = v->comms[i].id, size = v->comms[i].size;
		uint64_t counted = v->comms[i].waited_ns, waited;
		struct group_wait *x = group_waits_find(g, id);

		if (!v->comms[i].counts || size < 2 || size >= v->world_size)
			continue;
		if (!x && g->n == WIRE_GROUPS_MAX)
			continue;
		if (!x) {
			x = &g->of[g->n++];
			*x = (struct group_wait){
				.id = id, .size = size, .counted_ns = counted};
			strcpy(x->name, v->comms[i].name);
		}
		waited = counted > x->counted_ns ? counted - x->counted_ns : 0;
		x->slice_ns += waited < most_ns ? waited : most_ns;
		x->counted_ns = counted;
	}
}

void group_waits_end_slice(struct group_waits *g)
{
	for (int i = 0; i < g->n; i++) {
		struct group_wait *x = &g->of[i];

		x->past_ns[x->n++ % WAIT_SHARE_SLICES] = x->slice_ns;
		x->slice_ns = 0;
	}
}

static int32_t group_wait_permille(const struct group_wait *x,
				   uint64_t minute_ns)
{
	uint64_t waited = 0;

	if (x->n < WAIT_SHARE_SLICES || minute_ns < 1000)
		return -1;
	for (unsigned i = 0; i < WAIT_SHARE_SLICES; i++)
		waited += x->past_ns[i];
	waited /= minute_ns / 1000;
	return waited < 1000 ? (int32_t)waited : 1000;
}

uint32_t group_waits_put(const struct group_waits *g, uint64_t minute_ns,
			 struct buf *items)
{
	for (int i = 0; i < g->n; i++) {
		const struct group_wait *x = &g->of[i];
		const struct wire_group item = {
			.comm = x->id,
			.size = x->size,
			.waited = group_wait_permille(x, minute_ns),
			.name = SLICE_STR(x->name),
		};

		wire_put_group_item(items, &item);
	}
	return (uint32_t)g->n;
}

/* wait_share.c: sums over the slices of a minute. */
#include "launcher/watch/wait_share.h"

#include <string.h>

uint64_t wait_share_most(const struct wait_share *w, uint64_t ns,
			 uint64_t tick_ns)
{
	uint64_t took = ns - w->ns;

	if (!w->ns)
		return 0;
	/* a tick that comes late has more waits in it */
	return WAIT_SHARE_LONGEST * (took > tick_ns ? took : tick_ns);
}

int wait_share_add(struct wait_share *w, uint64_t ns, uint64_t waited_ns,
		   uint64_t tick_ns)
{
	uint64_t took = ns - w->ns, waited = waited_ns - w->waited_ns;
	uint64_t most = wait_share_most(w, ns, tick_ns);
	int is_first = !w->ns;

	/* the worker has restarted, or its memory is garbage */
	if (waited_ns < w->waited_ns)
		waited = 0;
	w->ns = ns;
	w->waited_ns = waited_ns;
	if (is_first)
		return 0;
	w->slice.ns += took;
	w->slice.waited_ns += waited < most ? waited : most;
	return ++w->ticks == WAIT_SHARE_TICKS;
}

void wait_share_end_slice(struct wait_share *w, const struct delays *now)
{
	w->slice.until = *now;
	w->past[w->n++ % (WAIT_SHARE_SLICES + 1)] = w->slice;
	w->slice = (struct wait_slice){0};
	w->ticks = 0;
}

/* i slices ago; 0: the last that is full. */
static const struct wait_slice *wait_share_slice(const struct wait_share *w,
						 unsigned i)
{
	return &w->past[(w->n - 1 - i) % (WAIT_SHARE_SLICES + 1)];
}

uint64_t wait_share_ns(const struct wait_share *w)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < WAIT_SHARE_SLICES; i++)
		ns += wait_share_slice(w, i)->ns;
	return ns;
}

int32_t wait_share_permille(const struct wait_share *w)
{
	uint64_t waited = 0, ns;

	if (w->n <= WAIT_SHARE_SLICES)
		return -1;
	for (unsigned i = 0; i < WAIT_SHARE_SLICES; i++)
		waited += wait_share_slice(w, i)->waited_ns;
	ns = wait_share_ns(w) / 1000;
	if (!ns || waited / ns >= 1000)
		return 1000;
	return (int32_t)(waited / ns);
}

char *wait_share_cause(const struct wait_share *w, char *out)
{
	out[0] = '\0';
	if (w->n > WAIT_SHARE_SLICES)
		delays_words(&wait_share_slice(w, WAIT_SHARE_SLICES)->until,
			     &wait_share_slice(w, 0)->until,
			     wait_share_ns(w) / 1000, out);
	return out;
}

/* ---- the waits in each group ---- */

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

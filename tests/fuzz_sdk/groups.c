/* groups.c: groups, split from the world and from each other by colors and
 * keys. Each rank frees a group when it is done with it. Every rank knows all
 * groups, also those that it is not in. */
#include <stdio.h>
#include <string.h>

#include "tests/fuzz_sdk/fuzz.h"

void group_text(const struct group *g, char *out, size_t size)
{
	size_t len = (size_t)snprintf(out, size, "ranks");

	for (int i = 0; i < g->n && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, " %d",
					g->members[i]);
	if (len < size)
		snprintf(out + len, size - len, " of the world, %d host%s",
			 g->hosts, g->hosts > 1 ? "s" : "");
}

static void count_hosts(struct group *g)
{
	g->hosts = 0;
	for (int i = 0; i < g->n; i++) {
		int host = setup_host(&fuzz.setup, g->members[i]), k = 0;

		while (setup_host(&fuzz.setup, g->members[k]) != host)
			k++;
		g->hosts += k == i;
	}
}

/* libddp must report the communicator as it was requested. */
static void check(const struct group *g)
{
	const ddp_comm *c = g->comm;
	int host = setup_host(&fuzz.setup, fuzz.rank), leader = 0;
	char text[200];

	group_text(g, text, sizeof(text));
	if (ddp_rank(c) != g->rank || ddp_world_size(c) != g->n)
		fail(NULL, "%s: libddp says rank %d of %d, not %d of %d", text,
		     ddp_rank(c), ddp_world_size(c), g->rank, g->n);
	for (int i = 0; i < g->n; i++)
		if (ddp_world_rank(c, i) != g->members[i])
			fail(NULL, "%s: rank %d is %d of the world, says "
			     "libddp", text, i, ddp_world_rank(c, i));
	while (setup_host(&fuzz.setup, g->members[leader]) != host)
		leader++;
	if (ddp_host_leader(c) != leader)
		fail(NULL, "%s: the host's leader is %d, not %d, says libddp",
		     text, leader, ddp_host_leader(c));
}

void groups_begin(ddp_comm *world)
{
	struct group *g = &fuzz.groups[0];

	g->live = 1;
	g->comm = world;
	g->n = fuzz.size;
	g->rank = fuzz.rank;
	for (int i = 0; i < g->n; i++)
		g->members[i] = i;
	count_hosts(g);
	check(g);
}

struct group *group_draw(struct rng *common)
{
	struct group *live[GROUPS_MAX];
	unsigned n = 0;

	for (int i = 0; i < GROUPS_MAX; i++)
		if (fuzz.groups[i].live)
			live[n++] = &fuzz.groups[i];
	return rng_chance(common, 50) ? live[0] : live[rng_below(common, n)];
}

static struct group *unused(void)
{
	for (int i = 0; i < GROUPS_MAX; i++)
		if (!fuzz.groups[i].live)
			return &fuzz.groups[i];
	return NULL;
}

/* The members of `parent` with this color, ordered by key, then by rank. */
static struct group chosen(const struct group *parent, const int *colors,
			   const int *keys, int color)
{
	struct group g = {.live = 1, .rank = -1};
	int done[RANKS_MAX] = {0};

	for (;;) {
		int next = -1;

		for (int i = 0; i < parent->n; i++)
			if (!done[i] && colors[i] == color &&
			    (next < 0 || keys[i] < keys[next]))
				next = i;
		if (next < 0)
			break;
		done[next] = 1;
		if (parent->members[next] == fuzz.rank)
			g.rank = g.n;
		g.members[g.n++] = parent->members[next];
	}
	count_hosts(&g);
	return g;
}

void groups_split(struct rng *common)
{
	const struct group *parent = group_draw(common);
	int colors[RANKS_MAX], keys[RANKS_MAX], most;
	ddp_comm *made = NULL;

	most = 1 + (int)rng_below(common, 3);
	for (int i = 0; i < parent->n; i++) {
		colors[i] = rng_chance(common, 15)
				    ? -1 - (int)rng_below(common, 3)
				    : (int)rng_below(common, (unsigned)most);
		keys[i] = (int)rng_below(common, 7) - 3;
	}
	if (parent->rank >= 0)
		must(ddp_comm_split(parent->comm, colors[parent->rank],
				    keys[parent->rank], &made),
		     NULL, "ddp_comm_split");
	for (int color = 0; color < most; color++) {
		struct group g = chosen(parent, colors, keys, color);
		struct group *at = unused();
		int mine = g.rank >= 0;

		/* there are too many groups: leaves this one at once */
		if (mine)
			g.comm = made;
		if (mine && !made)
			fail(NULL, "ddp_comm_split gave no group");
		if (mine)
			check(&g);
		if (at && g.n)
			*at = g;
		else if (mine)
			ddp_comm_free(made);
		if (mine)
			made = NULL;
	}
	if (made)
		fail(NULL, "ddp_comm_split gave a group for a color below 0");
}

/* Other ranks may still be in a call that this rank has finished. */
static void leave(struct group *g)
{
	if (g->comm) {
		calls_wait_group(g->comm);
		ddp_comm_free(g->comm);
	}
	*g = (struct group){.live = 0};
}

void groups_free_one(struct rng *common)
{
	struct group *g = group_draw(common);

	if (g != &fuzz.groups[0])
		leave(g);
}

void groups_free_all(void)
{
	for (int i = GROUPS_MAX - 1; i > 0; i--)
		if (fuzz.groups[i].live)
			leave(&fuzz.groups[i]);
}

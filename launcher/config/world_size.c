/* world_size.c: from the number of all workers to those of each node. */
#include "launcher/config/config_internal.h"

#include <stdio.h>

#include "rendezvous/wire.h"

/* The number that --nproc-per-node gives, 0 if it is not given. */
static int world_size_each(const struct config *c, long *each, struct err *e)
{
	char number[OPTION_NUMBER_MAX];

	*each = 0;
	if (!c->nproc_given)
		return 0;
	if (parse_long(option_trim(c->nproc_text, number), 1, WIRE_NPROC_MAX,
		       "", each, NULL) == 0)
		return 0;
	return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
		       "--nproc-per-node %s: both say how many workers there "
		       "are; leave one of them out", c->world_size,
		       c->nproc_text);
}

/* ---- hosts ---- */

static uint32_t world_size_listed(const struct config *c)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->hosts.count; i++)
		n += c->hosts.hosts[i].slots != 0;
	return n;
}

/* Consecutive ranks on each host; the first ones have one more. */
static void world_size_share(struct config *c)
{
	uint32_t n = c->hosts.count;

	if ((long)n > c->world_size)
		n = (uint32_t)c->world_size;
	for (uint32_t i = 0; i < n; i++)
		c->hosts.hosts[i].slots = (uint32_t)(c->world_size / n) +
					  (i < c->world_size % n);
	c->hosts.count = n;
}

static int world_size_fill(struct config *c, struct err *e)
{
	long left = c->world_size;
	uint32_t n = 0;

	for (; n < c->hosts.count && left; n++) {
		struct host *h = &c->hosts.hosts[n];

		if ((long)h->slots > left)
			h->slots = (uint32_t)left;
		left -= h->slots;
	}
	if (left)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld: %s has "
			       "room for %ld workers; list more, or ask for "
			       "fewer", c->world_size, c->hosts.from,
			       c->world_size - left);
	c->hosts.count = n;
	return 0;
}

int world_size_place(struct config *c, struct err *e)
{
	uint32_t listed = world_size_listed(c);
	long each;

	if (!c->world_size)
		return 0;
	if (c->nnodes_given)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
			       "--nnodes %s: the workers and %s determine how "
			       "many hosts the job has; leave one of them out",
			       c->world_size, c->nnodes_text, c->hosts.from);
	if (world_size_each(c, &each, e) < 0)
		return ERR_USAGE;
	if (!each && listed && listed < c->hosts.count)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld: %s gives "
			       "the workers of some hosts only; give HOST:N "
			       "for all of them, or HOST", c->world_size,
			       c->hosts.from);
	if (!each && !listed) {
		world_size_share(c);
		return 0;
	}
	for (uint32_t i = 0; each && i < c->hosts.count; i++) {
		if (!c->hosts.hosts[i].slots)
			c->hosts.hosts[i].slots = (uint32_t)each;
	}
	return world_size_fill(c, e);
}

/* ---- this node, and others that run the same command ---- */

int world_size_split(struct config *c, struct err *e)
{
	long nodes = c->max_nodes, share, each;

	if (!c->world_size)
		return 0;
	if (c->min_nodes != c->max_nodes)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
			       "--nnodes %s: the nodes come and go; give "
			       "--nproc-per-node", c->world_size,
			       c->nnodes_text);
	if (world_size_each(c, &each, e) < 0)
		return ERR_USAGE;
	/* a scheduler's counts of tasks may be uneven */
	if (c->world_size % nodes && c->roles.n && !c->nproc_given &&
	    c->env.role == LAUNCH_TASK && c->env.tasks)
		return 0;
	if (c->world_size % nodes)
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld: %ld nodes "
			       "cannot share them evenly; give "
			       "--nproc-per-node on each node",
			       c->world_size, nodes);
	share = c->world_size / nodes;
	if (each && (each < share || (nodes > 1 && each > share)))
		return err_set(e, ERR_USAGE, "--world-size (-n) %ld with "
			       "--nproc-per-node %ld: %ld node%s would have "
			       "%ld workers; leave one of them out",
			       c->world_size, each, nodes,
			       nodes == 1 ? "" : "s", each * nodes);
	snprintf(c->slots_text, sizeof(c->slots_text), "%ld", share);
	c->nproc_text = c->slots_text;
	c->nproc_given = 1;
	return 0;
}

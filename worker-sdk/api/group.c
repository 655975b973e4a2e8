/* group.c: splits groups from a communicator, whose ranks exchange everything
 * through it; no server is needed. The ranks of all groups of one split go
 * through rounds together, over the whole parent, until every group is made or
 * has failed, so no rank waits for a group that is not its own. A reducer's
 * communicator is made the same way, as one group of all ranks. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/last_error.h"

/* A rank's report at the start of a round. */
struct report {
	uint32_t done; /* 1: its group is made, or has failed */
	int32_t code;  /* its result, when done */
	uint64_t size; /* bytes of its value, or of its error's text */
};

struct wish {
	int32_t color, key;
};

struct split {
	struct ddp_comm *parent, *group; /* group NULL: this rank is in none */
	struct ddp__call call;
	const char *function; /* for messages */
	struct wish *wishes;  /* indexed by the parent's ranks */
	int *members;	      /* for each rank of the group, its rank in the
			       * parent */
	struct report *reports;  /* indexed by the parent's ranks */
	char *values;	      /* their values, each `most` bytes apart */
	size_t most;
	int all_done;
	struct err lost; /* code 0, or why the parent is unusable */
};

/* Gathers size bytes from each rank. A failure makes the parent unusable. */
static int split_gather(struct split *s, const void *mine, void *all,
			size_t size)
{
	struct ddp_comm *c = s->parent;

	s->call.count = size;
	if (s->lost.code)
		return s->lost.code;
	if (!c->state) {
		memcpy(all, mine, size);
		return 0;
	}
	return c->backend->gather(c, &s->call, mine, all, size, &s->lost);
}

static int split_no_memory(const struct split *s, struct err *e)
{
	return err_no_memory(e, "%s", s->function);
}

/* One round: sets s->said, and s->values for the ranks that sent a value. */
static int split_round(struct split *s, const struct report *me,
		       const char *value)
{
	size_t n = (size_t)s->parent->size;
	char *mine;
	int rc = split_gather(s, me, s->reports, sizeof(*me));

	s->all_done = 1;
	s->most = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		s->all_done &= s->reports[i].done == 1;
		if (s->reports[i].size > s->most)
			s->most = (size_t)s->reports[i].size;
	}
	free(s->values);
	s->values = NULL;
	if (rc || !s->most)
		return rc;
	mine = calloc(1, s->most);
	s->values = malloc(n * s->most);
	if (mine && s->values) {
		if (me->size)
			memcpy(mine, value, (size_t)me->size);
		rc = split_gather(s, mine, s->values, s->most);
	} else {
		rc = split_no_memory(s, &s->lost);
	}
	free(mine);
	return rc;
}

static struct slice split_value(const struct split *s, int parent_rank)
{
	size_t at = (size_t)parent_rank * s->most;

	return SLICE(s->values ? s->values + at : "",
		     (size_t)s->reports[parent_rank].size);
}

/* The error of another rank of this group that failed to make it; 0: none. */
static int split_remote_error(const struct split *s, struct err *e)
{
	for (int i = 0; i < s->group->size; i++) {
		int r = s->members[i];

		if (s->reports[r].done && s->reports[r].code < 0)
			return err_set(e, s->reports[r].code, "%.*s",
				       SLICE_FMT(split_value(s, r)));
	}
	return 0;
}

/* The exchange through which a backend makes the group. */
static int split_exchange(void *owner, const char *what, struct slice mine,
			  struct slice *values, struct err *e)
{
	struct split *s = owner;
	struct report me = {0, 0, mine.len};
	int rc = split_round(s, &me, mine.data);

	if (rc) {
		*e = s->lost;
		return rc;
	}
	rc = split_remote_error(s, e);
	for (int i = 0; i < s->group->size && !rc; i++) {
		if (s->reports[s->members[i]].done)
			rc = err_set(e, ERR_INTERNAL,
				     "%s: ranks differ in %s", s->function,
				     what);
		values[i] = split_value(s, s->members[i]);
	}
	return rc;
}

/* Takes part in rounds until all ranks are done. If one rank of a group could
 * not make it, the group fails on all its ranks. */
static int split_finish(struct split *s, int made, struct err *e)
{
	struct report me = {1, made, made ? strlen(e->text) : 0};
	int rc = made;

	do {
		if (split_round(s, &me, e->text)) {
			*e = s->lost;
			return e->code;
		}
		if (!rc && s->group)
			rc = split_remote_error(s, e);
	} while (!s->all_done);
	return rc;
}

static int split_compare_keys(const void *pa, const void *pb, void *arg)
{
	const struct wish *wishes = arg;
	int a = *(const int *)pa, b = *(const int *)pb;

	if (wishes[a].key != wishes[b].key)
		return wishes[a].key < wishes[b].key ? -1 : 1;
	return a - b;
}

/* Names the group "1.0" (first split) or "r1" (first reducer);
 * flight_recorder.c turns that into words. */
static void split_name_group(struct split *s, int color)
{
	struct ddp_comm *c = s->parent, *g = s->group;
	const char *slash = c->name[0] ? "/" : "";

	if (s->call.kind == DDP__REDUCER)
		snprintf(g->name, sizeof(g->name), "%.20s%sr%u", c->name, slash,
			 c->reducers);
	else
		snprintf(g->name, sizeof(g->name), "%.20s%s%u.%d", c->name,
			 slash, c->splits, color);
}

/* Makes *g with its ranks, from the colors and keys of all ranks. */
static int split_find_members(struct split *s, int color, struct err *e)
{
	struct ddp_comm *c = s->parent, *g = ddp__comm_new(c->world);
	size_t n = (size_t)c->size;

	if (!g)
		return split_no_memory(s, e);
	s->group = g;
	g->backend = c->backend;
	s->members = calloc(n, sizeof(int));
	g->ranks = calloc(n, sizeof(int));
	if (!s->members || !g->ranks)
		return split_no_memory(s, e);
	for (int r = 0; r < c->size; r++)
		if (s->wishes[r].color == color)
			s->members[g->size++] = r;
	qsort_r(s->members, (size_t)g->size, sizeof(int), split_compare_keys,
		s->wishes);
	for (int i = 0; i < g->size; i++) {
		g->ranks[i] = ddp_world_rank(c, s->members[i]);
		if (s->members[i] == c->rank)
			g->rank = i;
	}
	split_name_group(s, color);
	g->id = flight_comm_id(g->name);
	return 0;
}

static int split_make(struct split *s, int color, int key, struct err *e)
{
	struct ddp__exchange x = {s, split_exchange};
	struct ddp_comm *c = s->parent, *g;
	int rc = color < 0 ? 0 : split_find_members(s, color, e);

	g = s->group;
	if (!rc && c->backend->split && c->state)
		rc = c->backend->split(c, g, color, key, &x, e);
	else if (!rc && g && (g->size > 1 || c->backend->serves_one))
		rc = c->backend->start(g, &x, e);
	return rc;
}

static int split_run(struct split *s, int color, int key, struct err *e)
{
	struct ddp_comm *c = s->parent;
	struct wish mine = {color, key};
	size_t n = (size_t)c->size;
	int rc;

	*(s->call.kind == DDP__REDUCER ? &c->reducers : &c->splits) += 1;
	s->wishes = calloc(n, sizeof(*s->wishes));
	s->reports = calloc(n, sizeof(*s->reports));
	if (!s->wishes || !s->reports)
		return split_no_memory(s, &s->lost);
	if (split_gather(s, &mine, s->wishes, sizeof(mine)))
		return s->lost.code;
	rc = split_make(s, color, key, e);
	return split_finish(s, rc, e);
}

/* The part that both public calls share. */
static int split_call(struct split *s, int color, int key,
		      ddp_comm **group, struct err *e)
{
	struct ddp_comm *c = s->parent;
	int rc = ddp__acquire(c, &s->call, e);

	if (rc)
		return rc;
	s->call.number = c->calls + 1;
	s->call.group = c->name[0] ? c->name : NULL;
	if (!group)
		rc = err_set(e, ERR_ARGUMENT, "%s: group is NULL", s->function);
	else
		*group = NULL;
	if (!rc)
		rc = ddp__enter(c, &s->call, e);
	if (!rc) {
		rc = split_run(s, color, key, e);
		if (s->lost.code)
			*e = s->lost;
		/* a failed group does not break its parent */
		ddp__leave(c, &s->call, s->lost.code, e);
	}
	if (rc && s->group)
		ddp__comm_free(s->group);
	else if (!rc)
		*group = s->group;
	if (!rc && s->group)
		s->group->waited_ns = flight_comm_add(
			c->world->flight, s->group->name,
			(uint32_t)s->group->size, (uint32_t)s->group->rank,
			s->group->size == c->size ? c->waited_ns : NULL);
	free(s->wishes);
	free(s->reports);
	free(s->values);
	free(s->members);
	ddp__release(c);
	return rc;
}

int ddp_comm_split(ddp_comm *c, int color, int key, ddp_comm **group)
{
	struct split s = {.parent = c,
			  .function = "ddp_comm_split",
			  .call = {.kind = DDP__SPLIT, .type = DDP_U8}};

	return split_call(&s, color < 0 ? -1 : color, key, group,
			  ddp__last_error());
}

int ddp__comm_new_for_reducer(ddp_comm *c, ddp_comm **own)
{
	struct split s = {.parent = c,
			  .function = "ddp_reducer_new",
			  .call = {.kind = DDP__REDUCER, .type = DDP_U8}};

	return split_call(&s, 0, 0, own, ddp__last_error());
}

void ddp_comm_free(ddp_comm *group)
{
	if (group && group->magic == DDP__ALIVE && group->name[0])
		ddp__comm_free(group);
}

/* ---- groups by role ---- */

/* The place of name in "learner=0-3 actor=4-11", or -1. */
static int role_number(const char *roles, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; *roles; i++) {
		if (strncmp(roles, name, n) == 0 && roles[n] == '=')
			return i;
		roles += strcspn(roles, " ");
		roles += strspn(roles, " ");
	}
	return -1;
}

/* Without a list, as when each node has its own --role: a hash of the name
 * (FNV-1a), the same on all ranks. */
static int role_hash(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return (int)(hash & INT32_MAX);
}

const char *ddp_role(const ddp_comm *c)
{
	const char *name = getenv("ROLE_NAME");

	(void)c;
	return name && *name ? name : "default";
}

int ddp_comm_split_by_role(ddp_comm *c, ddp_comm **group)
{
	const char *roles = getenv("DDP_ROLES"), *name = ddp_role(c);
	int number = roles ? role_number(roles, name) : -1;

	return ddp_comm_split(c, number < 0 ? role_hash(name) : number, 0,
			      group);
}

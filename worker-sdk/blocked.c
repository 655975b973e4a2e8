/* blocked.c: a blocked rank's board, and reading those of its host. */
#include "worker-sdk/blocked.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/cpu.h"
#include "worker-sdk/deadlock.h"

enum { LOOK_MS = 50 }; /* at least between two looks */

/* A circle that a rank found. */
struct circle {
	uint64_t n; /* 0: none */
	struct ddp__stuck ranks[DDP__CIRCLE_MAX];
	struct err error; /* what all of them fail with */
};

struct board {
	struct ddp__blocked mine;
	struct circle circle;
};

_Static_assert(sizeof(struct board) <= DDP__SHM_BOARD &&
	       sizeof(struct board) % 8 == 0, "it is read in words");

/* Of a world. */
struct ddp__lookout {
	uint64_t turns, looked;
	struct ddp__blocked mine; /* turn 0: not blocked */
	struct circle found;	  /* in the look before this one */
};

/* ---- what this rank says */

/* The world's own, where its ranks met. NULL: they cannot tell each other. */
static struct ddp_comm *world_of(const struct ddp__world *w)
{
	struct ddp_comm *c = w->comms;

	for (; c; c = c->next) {
		if (c->backend != &ddp__cpu)
			return NULL;
		if (!c->next)
			break;
	}
	return c && c->state ? c : NULL;
}

/* Who of the ranks is needed by a call with a root, between hosts. */
static int needs_of_root(const struct ddp_comm *c,
			 const struct ddp__call *call)
{
	int gathers = call->kind == DDP__REDUCE || call->kind == DDP__GATHER;

	if (c->rank == call->root)
		return gathers ? DDP__NEEDS_ALL : DDP__NEEDS_NONE;
	return gathers ? DDP__NEEDS_NONE : ddp_world_rank(c, call->root);
}

static int needs_of(const struct ddp_comm *c, const struct ddp__call *call,
		    int from)
{
	int root = call->kind == DDP__REDUCE || call->kind == DDP__GATHER ||
		   call->kind == DDP__BROADCAST || call->kind == DDP__SCATTER;

	if (!root)
		return DDP__NEEDS_ALL;
	if (from == DDP__FROM_HOST)
		return DDP__NEEDS_HOST;
	if (from >= 0)
		return ddp_world_rank(c, from);
	return needs_of_root(c, call);
}

/* How far this rank is in each communicator. The world's is the last of the
 * list, and must not be the one that there is no room for. */
static void tell_begun(const struct ddp__world *w, struct ddp__blocked *b)
{
	b->comms = 0;
	for (const struct ddp_comm *c = w->comms; c; c = c->next) {
		const struct ddp__cpu *cpu = c->state;

		if (!cpu || (c->next && b->comms == DDP__BLOCKED_COMMS - 1))
			continue;
		b->begun[b->comms++] = (struct ddp__begun){cpu->id, c->calls};
	}
}

static int is_same_wait(const struct ddp__blocked *a,
			const struct ddp__blocked *b)
{
	return a->comm == b->comm && a->word == b->word &&
	       a->number == b->number && a->needs == b->needs;
}

/* Says what c is blocked in, unless that is said. */
static void say(struct ddp_comm *c, const struct ddp_comm *world,
		const struct ddp__call *call, int from)
{
	struct ddp__lookout *l = c->world->lookout;
	const struct ddp__cpu *cpu = c->state;
	struct ddp__cpu *ours = world->state;
	struct ddp__blocked b = {
		.comm = cpu->id,
		.word = ddp__call_pack(call),
		.number = call->number,
		.rank = world->rank,
		.host = world->topology.host_of[world->rank],
		.needs = needs_of(c, call, from),
	};

	if (l->mine.turn && is_same_wait(&l->mine, &b))
		return;
	b.turn = ++l->turns;
	memcpy(b.group, c->name, sizeof(b.group));
	tell_begun(c->world, &b);
	l->mine = b;
	l->found.n = 0;
	ddp__shm_board_put(&ours->shm, offsetof(struct board, mine), &b,
			   ddp__blocked_size(&b));
}

void ddp__blocked_end(void *owner)
{
	struct ddp_comm *c = owner;
	struct ddp_comm *world = world_of(c->world);
	struct ddp__lookout *l = c->world->lookout;
	struct ddp__cpu *ours = world ? world->state : NULL;

	if (!l || !l->mine.turn || !ours)
		return;
	l->mine.turn = 0;
	ddp__shm_board_put(&ours->shm, offsetof(struct board, mine), &l->mine,
			   sizeof(l->mine.turn));
}

/* ---- what the others say */

/* 1: rank i is blocked, and *b says in what. */
static int read_blocked(const struct ddp__shm *s, int i, struct ddp__blocked *b)
{
	size_t head = offsetof(struct ddp__blocked, begun);
	uint32_t comms;

	if (!ddp__shm_board_get(s, i, offsetof(struct board, mine), b, head) ||
	    !b->turn || b->comms > DDP__BLOCKED_COMMS)
		return 0;
	comms = b->comms;
	return ddp__shm_board_get(s, i, offsetof(struct board, mine), b,
				  ddp__blocked_size(b)) &&
	       b->turn && b->comms == comms;
}

/* 1: *c is a circle that rank i found, of which this wait of mine is a part. */
static int is_in_circle_of(const struct ddp__shm *s, int i,
			   const struct ddp__blocked *mine, struct circle *c)
{
	const size_t at = offsetof(struct board, circle);

	if (!ddp__shm_board_get(s, i, at, &c->n, sizeof(c->n)) || !c->n ||
	    !ddp__shm_board_get(s, i, at, c, sizeof(*c)) ||
	    c->n > DDP__CIRCLE_MAX)
		return 0;
	for (uint64_t k = 0; k < c->n; k++)
		if (c->ranks[k].rank == mine->rank &&
		    c->ranks[k].turn == mine->turn)
			return 1;
	return 0;
}

static int was_found(const struct ddp__shm *s, const struct ddp__blocked *mine,
		     struct circle *c)
{
	for (int i = 0; i < s->n; i++)
		if (i != s->me && is_in_circle_of(s, i, mine, c))
			return 1;
	return 0;
}

/* Whether I wait for one who is blocked, too: seldom, and only then is there
 * more to be done. */
static int awaits_blocked(const struct ddp__shm *s,
			  const struct ddp__blocked *mine)
{
	struct ddp__blocked other;

	for (int i = 0; i < s->n; i++)
		if (i != s->me && read_blocked(s, i, &other) &&
		    ddp__blocked_awaits(mine, &other))
			return 1;
	return 0;
}

/* All blocked ranks of the host. Returns how many; *me: which is mine. */
static int gather(const struct ddp__shm *s, const struct ddp__blocked *mine,
		  struct ddp__blocked *all, int *me)
{
	int n = 0;

	for (int i = 0; i < s->n; i++) {
		if (i == s->me) {
			*me = n;
			all[n++] = *mine;
		} else if (read_blocked(s, i, &all[n])) {
			n++;
		}
	}
	return n;
}

/* ---- circles */

static int is_same_circle(const struct circle *a, const struct circle *b)
{
	return a->n == b->n &&
	       !memcmp(a->ranks, b->ranks, a->n * sizeof(*a->ranks));
}

/* As it is now; n 0: there is none. */
static void find(const struct ddp__shm *s, const struct ddp__blocked *mine,
		 const struct ddp_comm *world, struct circle *c)
{
	struct ddp__blocked *all = malloc((size_t)s->n * sizeof(*all));
	int way[DDP__CIRCLE_MAX], me = 0, n = 0;

	if (all) {
		int blocked = gather(s, mine, all, &me);

		n = ddp__deadlock_find(all, blocked, me, way);
	}
	c->n = (uint64_t)n;
	for (int i = 0; i < n; i++)
		c->ranks[i] = (struct ddp__stuck){
			all[way[i]].turn, all[way[i]].comm, all[way[i]].rank};
	if (n)
		ddp__deadlock_error(all, way, n, &world->peers, &c->error);
	free(all);
}

/* Now and then: 1 if there is a circle, as there was the last time. */
static int find_again(struct ddp__lookout *l, struct ddp_comm *world,
		      struct circle *c)
{
	struct ddp__cpu *cpu = world->state;
	uint64_t now = clock_ns();
	int again;

	if (now - l->looked < LOOK_MS * UINT64_C(1000000))
		return 0;
	l->looked = now;
	c->n = 0;
	if (awaits_blocked(&cpu->shm, &l->mine))
		find(&cpu->shm, &l->mine, world, c);
	again = c->n && is_same_circle(c, &l->found);
	l->found = *c;
	return again;
}

/* Whoever waits for me waits in vain, and hears why. */
static void fail_before_me(const struct ddp__world *w, const struct circle *c,
			   int64_t me)
{
	uint64_t comm = c->ranks[c->n - 1].comm;

	for (uint64_t i = 1; i < c->n; i++)
		if (c->ranks[i].rank == me)
			comm = c->ranks[i - 1].comm;
	for (struct ddp_comm *at = w->comms; at; at = at->next) {
		const struct ddp__cpu *cpu = at->state;

		if (cpu && cpu->id == comm)
			ddp__engine_fail(at, &c->error);
	}
}

static int look(struct ddp__lookout *l, struct ddp_comm *world, struct err *e)
{
	struct ddp__cpu *cpu = world->state;
	struct ddp__shm *s = &cpu->shm;
	struct circle circle;

	if (!was_found(s, &l->mine, &circle)) {
		if (!find_again(l, world, &circle))
			return 0;
		ddp__shm_board_put(s, offsetof(struct board, circle), &circle,
				   sizeof(circle));
	}
	fail_before_me(world->world, &circle, world->rank);
	*e = circle.error;
	return e->code;
}

int ddp__blocked_look(void *owner, const struct ddp__call *call, int from,
		      struct err *e)
{
	struct ddp_comm *c = owner, *world = world_of(c->world);
	struct ddp__lookout *l = c->world->lookout;
	const struct ddp__cpu *ours = world ? world->state : NULL;

	if (!ours || !ours->shm.header || !c->state)
		return 0;
	if (!l)
		l = c->world->lookout = calloc(1, sizeof(*l));
	if (!l)
		return 0;
	say(c, world, call, from);
	return look(l, world, e);
}

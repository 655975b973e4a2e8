/* detector.c: publishes a blocked rank's state on its board, and finds cycles
 * on the boards of its host. */
#include "worker-sdk/comm/detector.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/comm/cpu.h"

enum {
	HEARD_MAX = 8,
	ANSWER_MAX = 8, /* ranks in one answer */
	/* The least time between two searches: during the first FIRST_MS, and
	 * later. */
	LOOK_FIRST_MS = 50,
	LOOK_MS = 400,
	FIRST_MS = 3000,
	/* Time allowed for the other ranks to find a cycle across hosts. */
	WIDE_MS = 500
};

/* A cycle that a rank found. */
struct cycle {
	uint64_t n; /* 0: none */
	uint64_t is_wide; /* spans several hosts */
	struct ddp__stuck ranks[DDP__CYCLE_MAX];
	struct err error; /* the error with which all its ranks fail */
};

/* Blocked ranks of other hosts; a new entry replaces the oldest. */
struct heard {
	uint64_t n, next;
	struct ddp__blocked ranks[HEARD_MAX];
};

/* A world's detector: the contents of this rank's board, if its host has other
 * ranks. */
struct ddp__detector {
	struct cycle cycle;
	struct ddp__blocked mine; /* turn 0: not blocked */
	struct heard heard;
	/* not on the board */
	uint64_t turns, since, looked;
	struct cycle found; /* in the last search, and */
	uint64_t found_since; /* in every search since then */
};

_Static_assert(offsetof(struct ddp__detector, turns) <= DDP__SHM_BOARD - 8 &&
		       offsetof(struct ddp__detector, turns) % 8 == 0 &&
		       offsetof(struct ddp__detector, mine) % 8 == 0 &&
		       sizeof(struct ddp__blocked) % 8 == 0,
	       "a board is read in words");
_Static_assert(sizeof(struct ddp__blocked) <= DDP__TCP_NOTICE_MAX,
	       "one goes with a notice");

/* Publishes a part of this rank's detector on its board. */
static void detector_show(const struct ddp__detector *d, struct ddp__shm *s,
			  size_t at, size_t size)
{
	if (s->header)
		ddp__shm_board_put(s, at, (const char *)d + at, size);
}

/* ---- the state that this rank publishes */

/* The world's communicator, if its ranks have met. NULL: they cannot exchange
 * anything yet. */
static struct ddp_comm *detector_world(const struct ddp__world *w)
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

/* The ranks that a call with a root needs, for a leader that waits for other
 * hosts. */
static int detector_needs_of_root(const struct ddp_comm *c,
				  const struct ddp__call *call)
{
	const int *host_of = c->topology.host_of;
	int gathers = call->kind == DDP__REDUCE || call->kind == DDP__GATHER;

	if (host_of[c->rank] == host_of[call->root])
		return gathers ? DDP__NEEDS_ALL : DDP__NEEDS_NONE;
	return gathers ? DDP__NEEDS_NONE : ddp_world_rank(c, call->root);
}

static int detector_needs(const struct ddp_comm *c,
			  const struct ddp__call *call, int from)
{
	int root = call->kind == DDP__REDUCE || call->kind == DDP__GATHER ||
		   call->kind == DDP__BROADCAST || call->kind == DDP__SCATTER;

	if (!root)
		return DDP__NEEDS_ALL;
	if (from == DDP__FROM_HOST)
		return DDP__NEEDS_HOST;
	if (from >= 0)
		return ddp_world_rank(c, from);
	return detector_needs_of_root(c, call);
}

/* Lists how many collectives this rank has begun on each communicator. The
 * world is the last of the list and must never be left out for lack of room. */
static void detector_list_begun(const struct ddp__world *w,
				struct ddp__blocked *b)
{
	b->comms = 0;
	for (const struct ddp_comm *c = w->comms; c; c = c->next) {
		const struct ddp__cpu *cpu = c->state;

		if (!cpu || (c->next && b->comms == DDP__BLOCKED_COMMS - 1))
			continue;
		b->begun[b->comms++] = (struct ddp__begun){cpu->id, c->calls};
	}
}

static int detector_is_same_wait(const struct ddp__blocked *a,
				 const struct ddp__blocked *b)
{
	return a->comm == b->comm && a->word == b->word &&
	       a->number == b->number && a->needs == b->needs;
}

static struct ddp__detector *detector_of(struct ddp__world *w)
{
	if (!w->detector)
		w->detector = calloc(1, sizeof(*w->detector));
	return w->detector;
}

/* Publishes the call that c is blocked in, unless it is published already. */
static void detector_report(struct ddp__detector *d, struct ddp_comm *c,
			    const struct ddp_comm *world,
			    const struct ddp__call *call, int from)
{
	const struct ddp__cpu *cpu = c->state;
	struct ddp__cpu *ours = world->state;
	struct ddp__blocked b = {
		.comm = cpu->id,
		.word = ddp__call_pack(call),
		.number = call->number,
		.rank = world->rank,
		.host = world->topology.host_of[world->rank],
		.needs = detector_needs(c, call, from),
	};

	if (d->mine.turn && detector_is_same_wait(&d->mine, &b))
		return;
	b.turn = ++d->turns;
	memcpy(b.group, c->name, sizeof(b.group));
	detector_list_begun(c->world, &b);
	d->mine = b;
	d->found.n = 0;
	d->since = clock_ns();
	detector_show(d, &ours->shm, offsetof(struct ddp__detector, mine),
		      ddp__blocked_size(&b));
}

void ddp__detector_end(void *owner)
{
	struct ddp_comm *c = owner, *world = detector_world(c->world);
	struct ddp__detector *d = c->world->detector;
	struct ddp__cpu *ours = world ? world->state : NULL;

	if (!d || !d->mine.turn || !ours)
		return;
	d->mine.turn = 0;
	detector_show(d, &ours->shm, offsetof(struct ddp__detector, mine),
		      sizeof(d->mine.turn));
}

static int blocked_is_valid(const struct ddp_comm *world,
			    const struct ddp__blocked *b, size_t size)
{
	return size >= offsetof(struct ddp__blocked, begun) && b->turn &&
	       b->rank >= 0 && b->rank < world->size &&
	       b->comms <= DDP__BLOCKED_COMMS &&
	       size == ddp__blocked_size(b) &&
	       memchr(b->group, 0, sizeof(b->group));
}

/* Keeps the newest report of each rank. */
void ddp__detector_receive(void *owner, const void *bytes, size_t size)
{
	struct ddp_comm *c = owner, *world = detector_world(c->world);
	struct ddp__detector *d = detector_of(c->world);
	struct ddp__cpu *ours = world ? world->state : NULL;
	struct ddp__blocked b = {.turn = 0};
	struct heard *h;
	uint64_t at = 0;

	memcpy(&b, bytes, size < sizeof(b) ? size : sizeof(b));
	if (!d || !ours || !blocked_is_valid(world, &b, size))
		return;
	h = &d->heard;
	while (at < h->n && h->ranks[at].rank != b.rank)
		at++;
	if (at == h->n && h->n < HEARD_MAX)
		h->n++;
	else if (at == h->n)
		at = h->next++ % HEARD_MAX;
	if (h->ranks[at].rank == b.rank && h->ranks[at].turn > b.turn)
		return;
	h->ranks[at] = b;
	detector_show(d, &ours->shm, offsetof(struct ddp__detector, heard),
		      sizeof(*h));
}

/* ---- the state that other ranks publish */

/* 1: rank i is blocked; its state is in *b. */
static int blocked_read(const struct ddp__shm *s, int i, struct ddp__blocked *b)
{
	const size_t at = offsetof(struct ddp__detector, mine);
	size_t head = offsetof(struct ddp__blocked, begun);
	uint32_t comms;

	if (!ddp__shm_board_get(s, i, at, b, head) || !b->turn ||
	    b->comms > DDP__BLOCKED_COMMS)
		return 0;
	comms = b->comms;
	return ddp__shm_board_get(s, i, at, b, ddp__blocked_size(b)) &&
	       b->turn && b->comms == comms;
}

/* 1: *c is a cycle that rank i found and that contains this rank's wait. */
static int blocked_is_in_cycle(const struct ddp__shm *s, int i,
			       const struct ddp__blocked *mine,
			       struct cycle *c)
{
	const size_t at = offsetof(struct ddp__detector, cycle);

	if (!ddp__shm_board_get(s, i, at, &c->n, sizeof(c->n)) || !c->n ||
	    !ddp__shm_board_get(s, i, at, c, sizeof(*c)) ||
	    c->n > DDP__CYCLE_MAX)
		return 0;
	for (uint64_t k = 0; k < c->n; k++)
		if (c->ranks[k].rank == mine->rank &&
		    c->ranks[k].turn == mine->turn)
			return 1;
	return 0;
}

static int detector_was_found(const struct ddp__shm *s,
			      const struct ddp__blocked *mine,
			      struct cycle *c)
{
	for (int i = 0; i < s->n; i++)
		if (i != s->me && blocked_is_in_cycle(s, i, mine, c))
			return 1;
	return 0;
}

/* Reads the reports that rank i has received from other hosts. */
static void detector_read_heard(const struct ddp__shm *s, int i,
				struct heard *h)
{
	const size_t at = offsetof(struct ddp__detector, heard);

	if (!ddp__shm_board_get(s, i, at, &h->n, sizeof(h->n)) || !h->n ||
	    !ddp__shm_board_get(s, i, at, h, sizeof(*h)) ||
	    h->n > HEARD_MAX)
		h->n = 0;
}

/* 1 if a rank that this one waits for is blocked, or if there is news from
 * other hosts. Both are rare; otherwise there is no more to do. */
static int detector_may_find(const struct ddp__detector *d,
			     const struct ddp__shm *s)
{
	const size_t at = offsetof(struct ddp__detector, heard);
	struct ddp__blocked other;
	uint64_t heard = d->heard.n;

	for (int i = 0; i < s->n && !heard; i++)
		if (i != s->me &&
		    ((blocked_read(s, i, &other) &&
		      ddp__blocked_awaits(&d->mine, &other)) ||
		     (ddp__shm_board_get(s, i, at, &heard, sizeof(heard)) &&
		      heard)))
			return 1;
	return heard != 0;
}

/* Adds ranks of other hosts that the list lacks, or holds in an older state.
 * Ranks of this host publish their own state. */
static int detector_add_heard(const struct heard *h, int host,
			      struct ddp__blocked *all, int n)
{
	for (uint64_t i = 0; i < h->n; i++) {
		const struct ddp__blocked *b = &h->ranks[i];
		int at = 0;

		while (at < n && all[at].rank != b->rank)
			at++;
		if (b->host == host || (at < n && all[at].turn >= b->turn))
			continue;
		all[at] = *b;
		n += at == n;
	}
	return n;
}

/* All ranks known to be blocked, this one first; *n is their number. NULL: no
 * memory. */
static struct ddp__blocked *detector_gather(const struct ddp__detector *d,
					    const struct ddp__shm *s, int *n)
{
	size_t most = 1 + ((size_t)s->n + 1) * (1 + HEARD_MAX);
	struct ddp__blocked *all = malloc(most * sizeof(*all));
	struct heard heard;

	if (!all)
		return NULL;
	all[0] = d->mine;
	*n = 1;
	for (int i = 0; i < s->n; i++)
		if (i != s->me && blocked_read(s, i, &all[*n]))
			++*n;
	*n = detector_add_heard(&d->heard, d->mine.host, all, *n);
	for (int i = 0; i < s->n; i++) {
		if (i == s->me)
			continue;
		detector_read_heard(s, i, &heard);
		*n = detector_add_heard(&heard, d->mine.host, all, *n);
	}
	return all;
}

/* ---- answers to other hosts */

/* All ranks known to be blocked, gathered on first use. */
struct report {
	const struct ddp__detector *d;
	const struct ddp__shm *shm;
	struct ddp__blocked *all; /* NULL: not gathered */
	int n;
};

/* Finds the ranks of this host that have not begun comm's call with that
 * number, then the ranks that these wait for. */
static int report_find_absent(const struct report *w, uint64_t comm,
			      uint64_t number, int found[ANSWER_MAX])
{
	int n = 0;

	for (int i = 0; i < w->n && n < ANSWER_MAX; i++)
		if (w->all[i].host == w->d->mine.host &&
		    ddp__has_not_begun(&w->all[i], comm, number))
			found[n++] = i;
	return n ? ddp__blocked_reach(w->all, w->n, found, n, ANSWER_MAX) : 0;
}

/* A digest that is equal for equal answers. */
static uint64_t report_digest(const struct report *w, uint64_t number,
			      const int *found, int n)
{
	uint64_t digest = number;

	for (int i = 0; i < n; i++) {
		const struct ddp__blocked *b = &w->all[found[i]];

		digest = ddp__digest(digest, (uint64_t)b->rank + 1);
		digest = ddp__digest(digest, b->turn);
	}
	return digest;
}

/* The other host waits for its call on c, and a rank of this host is blocked
 * elsewhere. Reports that once. */
static void report_answer(struct report *w, const struct ddp_comm *c, int host)
{
	struct ddp__cpu *cpu = c->state;
	struct ddp__tcp_wait *wait = &cpu->tcp.waits[host];
	uint64_t number = wait->call.number, digest;
	int found[ANSWER_MAX], n;

	/* all ranks of this host have begun the call, and its leader has left
	 * it */
	if (!wait->call.word || number < c->calls)
		return;
	if (!w->all)
		w->all = detector_gather(w->d, w->shm, &w->n);
	if (!w->all)
		return;
	n = report_find_absent(w, cpu->id, number, found);
	digest = report_digest(w, number, found, n);
	if (!n || digest == wait->answered)
		return;
	wait->answered = digest;
	for (int i = 0; i < n; i++)
		ddp__tcp_send_notice(&cpu->tcp, host, DDP__FRAME_BLOCKED,
				     &w->all[found[i]],
				     ddp__blocked_size(&w->all[found[i]]));
}

/* Reads the notices of other hosts, and answers them. */
static void detector_answer(const struct ddp__detector *d,
			    const struct ddp_comm *world)
{
	struct ddp__cpu *ours = world->state;
	struct report w = {.d = d, .shm = &ours->shm};

	for (struct ddp_comm *c = world->world->comms; c; c = c->next) {
		struct ddp__cpu *cpu = c->state;

		if (!cpu || !cpu->tcp.fd || cpu->tcp.broken)
			continue;
		ddp__tcp_take_notices(&cpu->tcp);
		for (int host = 0; host < cpu->tcp.n; host++)
			if (host != cpu->tcp.me)
				report_answer(&w, c, host);
	}
	free(w.all);
}

/* ---- cycles */

static int detector_is_same_cycle(const struct cycle *a,
				  const struct cycle *b)
{
	return a->n == b->n &&
	       !memcmp(a->ranks, b->ranks, a->n * sizeof(*a->ranks));
}

/* Sets *c to the current cycle; n 0: there is none. */
static void detector_find(const struct ddp__detector *d,
			  const struct ddp_comm *world, struct cycle *c)
{
	const struct ddp__cpu *cpu = world->state;
	int way[DDP__CYCLE_MAX], blocked = 0, n = 0;
	struct ddp__blocked *all =
		detector_gather(d, &cpu->shm, &blocked);

	if (all)
		n = ddp__deadlock_find(all, blocked, 0, way);
	c->n = (uint64_t)n;
	c->is_wide = 0;
	for (int i = 0; i < n; i++) {
		const struct ddp__blocked *b = &all[way[i]];

		c->ranks[i] = (struct ddp__stuck){b->turn, b->comm, b->rank};
		c->is_wide |= b->host != d->mine.host;
	}
	if (n)
		ddp__deadlock_error(all, way, n, &world->peers, &c->error);
	free(all);
}

static int detector_is_time(struct ddp__detector *d)
{
	uint64_t now = clock_ns();
	int first = now - d->since < FIRST_MS * UINT64_C(1000000);
	int ms = first ? LOOK_FIRST_MS : LOOK_MS;

	if (now - d->looked < (uint64_t)ms * 1000000)
		return 0;
	d->looked = now;
	return 1;
}

/* 1 if the cycle is the same as in the last search. */
static int detector_find_again(struct ddp__detector *d,
			       const struct ddp_comm *world,
			       struct cycle *c)
{
	const struct ddp__cpu *cpu = world->state;
	uint64_t wide_ns = WIDE_MS * UINT64_C(1000000);

	c->n = 0;
	if (detector_may_find(d, &cpu->shm))
		detector_find(d, world, c);
	if (!c->n || !detector_is_same_cycle(c, &d->found)) {
		d->found = *c;
		d->found_since = d->looked;
		return 0;
	}
	return c->n == 2 || !c->is_wide ||
	       d->looked - d->found_since >= wide_ns;
}

/* Fails the communicator in which another rank of the cycle waits for this
 * one, so that the ranks waiting there get the reason. */
static void detector_fail_earlier(const struct ddp__world *w,
				  const struct cycle *c, int64_t me)
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

static int detector_check(struct ddp__detector *d, struct ddp_comm *world,
			  struct err *e)
{
	struct ddp__cpu *cpu = world->state;
	struct cycle cycle;

	if (!detector_was_found(&cpu->shm, &d->mine, &cycle)) {
		if (!detector_is_time(d))
			return 0;
		detector_answer(d, world);
		if (!detector_find_again(d, world, &cycle))
			return 0;
		d->cycle = cycle;
		detector_show(d, &cpu->shm,
			      offsetof(struct ddp__detector, cycle),
			      sizeof(cycle));
	}
	detector_fail_earlier(world->world, &cycle, world->rank);
	*e = cycle.error;
	return e->code;
}

void ddp__detector_explain(struct ddp_comm *c, struct err *e)
{
	struct ddp_comm *world = detector_world(c->world);
	struct ddp__detector *d = c->world->detector;
	struct ddp__cpu *cpu = c->state, *ours = world ? world->state : NULL;
	struct cycle cycle;

	if (!d || !ours || !d->mine.turn || d->mine.comm != cpu->id)
		return;
	if (!detector_was_found(&ours->shm, &d->mine, &cycle))
		detector_find(d, world, &cycle);
	if (cycle.n) {
		detector_fail_earlier(c->world, &cycle, world->rank);
		*e = cycle.error;
	}
	ddp__detector_end(c);
}

int ddp__detector_check(void *owner, const struct ddp__call *call, int from,
			struct err *e)
{
	struct ddp_comm *c = owner, *world = detector_world(c->world);
	struct ddp__detector *d = world ? detector_of(c->world) : NULL;

	if (!d || !c->state)
		return 0;
	detector_report(d, c, world, call, from);
	return detector_check(d, world, e);
}

/* engine.c: the queues, and waiting for what moves them. */
#include "worker-sdk/engine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/cpu.h"

/* Before it sleeps in poll a call spins for so long: waking up costs more than
 * most messages take. */
#define SPIN_NS 100000u

enum {
	LOOK_MS = 100,	/* how often to see whether those awaited live */
	LOOK_FIRST_MS = 4
};

int ddp__engine_use(struct ddp__world *w, struct err *e)
{
	if (!w->engine) {
		w->engine = calloc(1, sizeof(*w->engine));
		if (!w->engine)
			return err_set(e, -ENOMEM, "ddp_init: no memory");
		pthread_mutex_init(&w->engine->lock, NULL);
		w->engine->bell = -1;
	}
	w->engine->cpus++;
	return 0;
}

void ddp__engine_leave(struct ddp__world *w)
{
	struct ddp__engine *en = w->engine;

	if (--en->cpus)
		return;
	ddp__progress_end(en);
	pthread_mutex_destroy(&en->lock);
	free(en->sleeper.polls);
	free(en);
	w->engine = NULL;
}

/* ---- the queues */

void ddp__engine_add(struct ddp__engine *en, struct ddp__task *t)
{
	struct ddp__queue *q = t->queue;

	t->next = NULL;
	t->state = DDP__QUEUED;
	t->since = 0;
	if (!q->first)
		q->last = &q->first;
	*q->last = t;
	q->last = &t->next;
	en->tasks++;
	en->changed = 1;
	if (q->busy)
		return;
	q->busy = 1;
	q->next = en->busy;
	en->busy = q;
}

/* Out of its queue; what it held is let go. */
static void end(struct ddp__engine *en, struct ddp__task *t,
		enum ddp__task_state state)
{
	struct ddp__queue *q = t->queue;
	struct ddp__task **at = &q->first;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	if (!t->next)
		q->last = at;
	if (t->state == DDP__UNDER_WAY)
		ddp__cpu_op_release(&t->op);
	t->state = state;
	en->tasks--;
}

static void fail_queue(struct ddp__engine *en, struct ddp__queue *q)
{
	while (q->first)
		end(en, q->first, DDP__FAILED);
}

void ddp__engine_fail(struct ddp_comm *c, const struct err *e)
{
	struct ddp__engine *en = c->world->engine;
	struct ddp__cpu *cpu = c->state;

	if (cpu->failed.code)
		return;
	cpu->failed = *e;
	/* whoever waits for me, here or on another host, hears of it */
	ddp__shm_abort(&cpu->shm, e);
	ddp__tcp_abort(&cpu->tcp, e);
	fail_queue(en, &cpu->collectives);
	for (int i = 0; cpu->messages && i < 2 * c->size; i++)
		fail_queue(en, &cpu->messages[i]);
}

void ddp__engine_drop(struct ddp__engine *en, struct ddp__task *t)
{
	if (t->state == DDP__QUEUED || t->state == DDP__UNDER_WAY)
		end(en, t, DDP__FAILED);
}

/* Takes empty queues from the busy ones; where cpu is given, all of its. */
void ddp__engine_tidy(struct ddp__engine *en, const struct ddp__cpu *cpu)
{
	struct ddp__queue **at = &en->busy;

	while (*at) {
		struct ddp__queue *q = *at;

		if (q->first && q->cpu != cpu) {
			at = &q->next;
			continue;
		}
		q->busy = 0;
		*at = q->next;
	}
}

static int advance(struct ddp__task *t, struct err *e)
{
	if (t->state == DDP__QUEUED) {
		ddp__cpu_op_init(&t->op, t->c, t->call, t->send, t->recv);
		t->state = DDP__UNDER_WAY;
	}
	return ddp__cpu_op_advance(&t->op, e);
}

/* 1 if anything moved. */
static int move_queue(struct ddp__engine *en, struct ddp__queue *q)
{
	struct err e = ERR_INIT;
	int moved = 0;

	while (q->first) {
		struct ddp__task *t = q->first;
		int begun = t->state == DDP__UNDER_WAY, rc = advance(t, &e);

		if (rc < 0) {
			ddp__engine_fail(t->c, &e);
			return 1;
		}
		if (rc == 0) {
			if (!ddp__cpu_op_moved(&t->op) && begun)
				return moved;
			t->since = 0;
			return 1;
		}
		end(en, t, DDP__DONE);
		moved = 1;
	}
	return moved;
}

int ddp__engine_move(struct ddp__engine *en)
{
	int moved = 0, empty = 0;

	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		moved |= move_queue(en, q);
		empty |= !q->first;
	}
	if (empty)
		ddp__engine_tidy(en, NULL);
	en->changed |= moved;
	return moved;
}

/* ---- waiting */

/* A task that stands still: for how long, and is there sense in waiting on. */
static int look(struct ddp__task *t, uint64_t now, struct err *e)
{
	struct ddp__cpu *cpu = t->queue->cpu;
	uint64_t waited;
	int rc = 0;

	if (!t->since)
		t->since = now;
	waited = now - t->since;
	if (ddp__cpu_op_awaits_shm(&t->op))
		rc = ddp__shm_look(&cpu->shm, waited, e);
	if (!rc && t->op.tcp_busy)
		rc = ddp__tcp_look(&cpu->tcp, waited, e);
	return rc;
}

void ddp__engine_look(struct ddp__engine *en)
{
	uint64_t now = clock_ns();

	if (now - en->looked < LOOK_FIRST_MS * 1000000u)
		return;
	en->looked = now;
	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		struct err e = ERR_INIT;

		if (q->first && q->first->state == DDP__UNDER_WAY &&
		    look(q->first, now, &e))
			ddp__engine_fail(q->first->c, &e);
	}
	ddp__engine_tidy(en, NULL);
}

/* Room for `more` beyond those there; NULL: no memory. */
static struct pollfd *make_room(struct ddp__sleeper *s, int more)
{
	struct pollfd *p = s->polls;

	if (s->n + more > s->room) {
		int room = 2 * (s->n + more);

		p = realloc(s->polls, (size_t)room * sizeof(*p));
		if (!p)
			return NULL;
		s->polls = p;
		s->room = room;
	}
	return p + s->n;
}

/* To be rung by peers; what came since is looked for once more. */
static void arm(struct ddp__cpu *cpu, struct ddp__sleeper *s)
{
	struct pollfd *p = make_room(s, 1);
	struct err e = ERR_INIT;
	int bell = ddp__shm_doorbell(&cpu->shm, &e);

	if (!p || bell < 0) {
		s->ms = s->ms ? 1 : 0; /* it has to be looked for */
		return;
	}
	if (cpu->armed)
		ddp__shm_disarm(&cpu->shm);
	cpu->armed = 1;
	if (ddp__shm_arm(&cpu->shm))
		s->ms = 0;
	*p = (struct pollfd){bell, POLLIN, 0};
	s->n++;
}

static void add_polls(struct ddp__task *t, struct ddp__sleeper *s)
{
	struct ddp__cpu *cpu = t->queue->cpu;
	int most = cpu->tcp.n * cpu->tcp.links * 2;
	struct pollfd *p;

	if (t->op.tcp_busy) {
		p = make_room(s, most);
		if (p)
			s->n += ddp__tcp_polls(&cpu->tcp, p, most);
		else
			s->ms = s->ms ? 1 : 0;
	}
	if (ddp__cpu_op_awaits_shm(&t->op))
		arm(cpu, s);
}

static void disarm(struct ddp__engine *en)
{
	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		if (q->cpu->armed)
			ddp__shm_disarm(&q->cpu->shm);
		q->cpu->armed = 0;
	}
}

void ddp__engine_sleep(struct ddp__engine *en, struct ddp__sleeper *s, int ms,
		       int bell)
{
	s->n = 0;
	s->ms = ms;
	if (bell >= 0 && make_room(s, 1))
		s->polls[s->n++] = (struct pollfd){bell, POLLIN, 0};
	for (struct ddp__queue *q = en->busy; q; q = q->next)
		if (q->first)
			add_polls(q->first, s);
	if (s->ms) {
		if (bell >= 0) {
			en->asleep = 1;
			pthread_mutex_unlock(&en->lock);
		}
		poll(s->polls, (nfds_t)s->n, s->ms);
		if (bell >= 0) {
			pthread_mutex_lock(&en->lock);
			en->asleep = 0;
		}
	}
	disarm(en);
}

int ddp__pace(struct ddp__pace *p, int moved, uint64_t spin_ns)
{
	uint64_t now;

	if (moved) {
		p->quiet = 0;
		p->ms = LOOK_FIRST_MS;
		return 0;
	}
	now = clock_ns();
	if (!p->quiet)
		p->quiet = now;
	if (now - p->quiet < spin_ns) {
		sched_yield(); /* whom I wait for may need this CPU */
		return 0;
	}
	now = (uint64_t)p->ms;
	p->ms = p->ms * 2 < LOOK_MS ? p->ms * 2 : LOOK_MS;
	return (int)now;
}

/* There is nothing but the head of one queue, and it waits in shared memory
 * only: so I can do so too, which is quicker. */
static int wait_in_host(struct ddp__engine *en)
{
	struct ddp__queue *q = en->busy;
	struct ddp__task *t = q->first;
	struct err e = ERR_INIT;
	int rc;

	if (q->next || !ddp__cpu_op_is_in_host(&t->op))
		return 0;
	rc = ddp__cpu_op_run(&t->op, &e);
	if (rc < 0)
		ddp__engine_fail(t->c, &e);
	else
		end(en, t, DDP__DONE);
	ddp__engine_tidy(en, NULL);
	return 1;
}

void ddp__engine_wait(struct ddp__engine *en, struct ddp__task *t,
		      int timeout_ms)
{
	struct ddp__pace pace = {0, LOOK_FIRST_MS};
	uint64_t start = clock_ns();

	for (;;) {
		int moved = ddp__engine_move(en), ms;

		if (t->state == DDP__DONE || t->state == DDP__FAILED)
			return;
		if (timeout_ms >= 0) {
			uint64_t waited = (clock_ns() - start) / 1000000u;

			if (!moved)
				ddp__engine_look(en);
			if (waited >= (uint64_t)timeout_ms)
				return;
			ms = ddp__pace(&pace, moved, SPIN_NS);
			if (ms > timeout_ms - (int)waited)
				ms = timeout_ms - (int)waited;
		} else {
			moved |= wait_in_host(en);
			ms = ddp__pace(&pace, moved, SPIN_NS);
		}
		if (!ms)
			continue;
		ddp__engine_sleep(en, &en->sleeper, ms, -1);
		ddp__engine_look(en);
	}
}

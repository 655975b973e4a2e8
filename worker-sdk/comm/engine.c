/* engine.c: the queues of tasks: advances them, and waits until they move. */
#include "worker-sdk/comm/engine.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "worker-sdk/comm/cpu.h"
#include "worker-sdk/comm/detector.h"

/* How long a call spins before it sleeps in poll: waking up takes longer than
 * most messages do. */
#define SPIN_NS 100000u

enum {
	LOOK_MS = 100, /* how often to check that the ranks awaited are alive */
	LOOK_FIRST_MS = 4
};

int ddp__engine_use(struct ddp__world *w, struct err *e)
{
	if (!w->engine) {
		w->engine = calloc(1, sizeof(*w->engine));
		if (!w->engine)
			return err_no_memory(e, "ddp_init");
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

/* One queue for collectives, and one for the messages of each rank and
 * direction. */
static struct ddp__queue *engine_queue(struct ddp_comm *c,
				       const struct ddp__call *call)
{
	struct ddp__cpu *cpu = c->state;
	size_t n = (size_t)c->size;

	if (!ddp__is_message(call))
		return &cpu->collectives;
	if (!cpu->messages) {
		cpu->messages = calloc(2 * n, sizeof(*cpu->messages));
		for (size_t i = 0; cpu->messages && i < 2 * n; i++)
			cpu->messages[i].cpu = cpu;
	}
	if (!cpu->messages)
		return NULL;
	return &cpu->messages[(size_t)call->root +
			      (call->kind == DDP__RECV ? n : 0)];
}

int ddp__engine_add(struct ddp__engine *en, struct ddp__task *t,
		    struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e)
{
	struct ddp__queue *q = engine_queue(c, call);

	if (!q)
		return err_no_memory(e, "messages");
	t->next = NULL;
	t->queue = q;
	ddp__task_set_state(t, DDP__QUEUED);
	t->c = c;
	t->call = call;
	t->send = send;
	t->recv = recv;
	t->since = t->moves = t->both = 0;
	if (!q->first)
		q->last = &q->first;
	*q->last = t;
	q->last = &t->next;
	en->tasks++;
	en->changed = 1;
	if (q->busy)
		return 0;
	q->busy = 1;
	q->next = en->busy;
	en->busy = q;
	return 0;
}

/* The first task of its queue has ended: removes and releases it. */
static void queue_end(struct ddp__engine *en, struct ddp__task *t,
		      enum ddp__task_state state)
{
	t->queue->first = t->next;
	if (t->state == DDP__UNDER_WAY && t->kind->release)
		t->kind->release(t);
	ddp__task_set_state(t, state);
	en->tasks--;
}

/* Empties a communicator's queues. Its transports have dropped the tasks
 * already. */
static void engine_fail_queues(struct ddp_comm *c)
{
	struct ddp__engine *en = c->world->engine;
	struct ddp__cpu *cpu = c->state;

	while (cpu->collectives.first)
		queue_end(en, cpu->collectives.first, DDP__FAILED);
	for (int i = 0; cpu->messages && i < 2 * c->size; i++)
		while (cpu->messages[i].first)
			queue_end(en, cpu->messages[i].first, DDP__FAILED);
}

void ddp__engine_fail(struct ddp_comm *c, const struct err *e)
{
	struct ddp__cpu *cpu = c->state;

	if (cpu->failed.code)
		return;
	cpu->failed = *e;
	cpu->local.transport->abort(&cpu->local, e);
	cpu->remote.transport->abort(&cpu->remote, e);
	engine_fail_queues(c);
}

void ddp__engine_fail_in_wait(struct ddp_comm *c, struct err *e)
{
	ddp__detector_explain(c, e);
	ddp__engine_fail(c, e);
}

void ddp__engine_forget(struct ddp_comm *c)
{
	struct ddp__cpu *cpu = c->state;

	if (!cpu->failed.code)
		err_set(&cpu->failed, ERR_ABORTED,
			"the communicator was freed before this had ended");
	cpu->local.transport->forget(&cpu->local);
	cpu->remote.transport->forget(&cpu->remote);
	engine_fail_queues(c);
}

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

void ddp__engine_forgive(struct ddp__engine *en)
{
	for (struct ddp__queue *q = en->busy; q; q = q->next)
		if (q->first)
			q->first->since = 0;
}

/* ---- moving */

/* 1 if anything moved. */
static int queue_move(struct ddp__engine *en, struct ddp__queue *q)
{
	struct err e = ERR_INIT;
	int moved = 0;

	while (q->first) {
		struct ddp__task *t = q->first;
		int begins = t->state == DDP__QUEUED, rc;

		if (begins)
			ddp__task_prepare(t);
		rc = t->kind->advance(t, &e);
		if (rc < 0) {
			ddp__engine_fail_in_wait(t->c, &e);
			return 1;
		}
		if (rc == 0) {
			if (!t->kind->has_moved(t) && !begins)
				return moved;
			t->since = 0;
			return 1;
		}
		queue_end(en, t, DDP__DONE);
		moved = 1;
	}
	return moved;
}

int ddp__engine_run(struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e)
{
	struct ddp__task t;
	int rc;

	/* only these fields matter, and clearing all of it would take time */
	t.c = c;
	t.call = call;
	t.send = send;
	t.recv = recv;
	ddp__task_prepare(&t);
	rc = t.kind->wait(&t, e);
	if (rc < 0)
		ddp__engine_fail_in_wait(c, e);
	return rc;
}

int ddp__engine_move(struct ddp__engine *en)
{
	int moved = 0, empty = 0;

	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		moved |= queue_move(en, q);
		empty |= !q->first;
	}
	if (empty)
		ddp__engine_tidy(en, NULL);
	en->changed |= moved;
	return moved;
}

/* ---- waiting */

void ddp__engine_check(struct ddp__engine *en)
{
	uint64_t now = clock_ns();

	if (now - en->looked < LOOK_FIRST_MS * 1000000u)
		return;
	en->looked = now;
	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		struct err e = ERR_INIT;

		if (q->first && q->first->state == DDP__UNDER_WAY &&
		    ddp__task_check(q->first, now, &e))
			ddp__engine_fail_in_wait(q->first->c, &e);
	}
	ddp__engine_tidy(en, NULL);
}

static void path_disarm(const struct ddp__path *p)
{
	if (p->transport->disarm)
		p->transport->disarm(p);
}

static void engine_disarm(struct ddp__engine *en)
{
	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		const struct ddp__cpu *cpu = q->cpu;

		path_disarm(&cpu->local);
		path_disarm(&cpu->remote);
	}
}

void ddp__engine_sleep(struct ddp__engine *en, struct ddp__sleeper *s, int ms,
		       int bell)
{
	s->n = 0;
	s->ms = ms;
	if (bell >= 0 && ddp__sleeper_room(s, 1))
		s->polls[s->n++] = (struct pollfd){bell, POLLIN, 0};
	for (struct ddp__queue *q = en->busy; q; q = q->next) {
		struct ddp__task *t = q->first;

		if (t && t->state == DDP__UNDER_WAY)
			t->kind->poll(t, s);
		else if (t)
			s->ms = 0; /* it was queued since the last move */
	}
	if (s->ms) {
		uint64_t slept = clock_ns();

		if (bell >= 0) {
			en->asleep = 1;
			pthread_mutex_unlock(&en->lock);
		}
		poll(s->polls, (nfds_t)s->n, s->ms);
		if (bell >= 0) {
			pthread_mutex_lock(&en->lock);
			en->asleep = 0;
		}
		if (clock_was_stopped(slept, s->ms))
			ddp__engine_forgive(en);
	}
	engine_disarm(en);
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
		sched_yield(); /* an awaited rank may need this CPU */
		return 0;
	}
	now = (uint64_t)p->ms;
	p->ms = p->ms * 2 < LOOK_MS ? p->ms * 2 : LOOK_MS;
	return (int)now;
}

/* If there is only one task, and it waits in one place, waiting there is faster
 * than polling. */
static int engine_wait_in_place(struct ddp__engine *en)
{
	struct ddp__queue *q = en->busy;
	struct ddp__task *t = q->first;
	struct err e = ERR_INIT;
	int rc;

	if (q->next)
		return 0;
	rc = t->kind->wait(t, &e);
	if (rc < 0)
		ddp__engine_fail_in_wait(t->c, &e);
	else if (rc)
		queue_end(en, t, DDP__DONE);
	ddp__engine_tidy(en, NULL);
	return rc != 0;
}

/* The call that waits for t returns only when t has ended. Fails t if the first
 * task of its queue waits in a deadlock. */
static void engine_check_cycle(const struct ddp__task *t,
			       struct ddp__standstill *w)
{
	const struct ddp__task *head = t->queue->first;
	const struct ddp__call *call;
	struct err e = ERR_INIT;
	int from;

	if (!head || head->state != DDP__UNDER_WAY || !head->since ||
	    head->kind != &ddp__task_collective)
		return;
	call = ddp__cpu_op_awaited(&head->op, &from);
	if (call &&
	    ddp__stands_still(w, call, from, clock_ns() - head->since, &e))
		ddp__engine_fail(t->c, &e);
}

void ddp__engine_wait(struct ddp__engine *en, struct ddp__task *t,
		      int timeout_ms)
{
	struct ddp__standstill w = {&t->c->peers, 0};
	struct ddp__pace pace = {0, LOOK_FIRST_MS};
	uint64_t start = clock_ns();

	for (;;) {
		int moved = ddp__engine_move(en), ms;

		if (ddp__task_has_ended(t))
			break;
		if (timeout_ms >= 0) {
			uint64_t waited = (clock_ns() - start) / 1000000u;

			if (!moved)
				ddp__engine_check(en);
			if (waited >= (uint64_t)timeout_ms)
				break;
			ms = ddp__pace(&pace, moved, SPIN_NS);
			if (ms > timeout_ms - (int)waited)
				ms = timeout_ms - (int)waited;
		} else {
			moved |= engine_wait_in_place(en);
			ms = ddp__pace(&pace, moved, SPIN_NS);
		}
		if (!ms)
			continue;
		ddp__engine_sleep(en, &en->sleeper, ms, -1);
		/* first: a rank may have left because of a deadlock */
		if (timeout_ms < 0)
			engine_check_cycle(t, &w);
		ddp__engine_check(en);
	}
	ddp__goes_on(&w);
}

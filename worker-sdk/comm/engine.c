/* engine.c: the queues, and waiting for what moves them. */
#include "worker-sdk/comm/engine.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "worker-sdk/comm/cpu.h"
#include "worker-sdk/comm/detector.h"

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

/* Collectives have one; messages one for each rank and direction. */
static struct ddp__queue *queue_of(struct ddp_comm *c,
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

static void set_state(struct ddp__task *t, enum ddp__task_state state)
{
	atomic_store_explicit(&t->state, state, memory_order_release);
}

int ddp__engine_add(struct ddp__engine *en, struct ddp__task *t,
		    struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e)
{
	struct ddp__queue *q = queue_of(c, call);

	if (!q)
		return err_set(e, -ENOMEM, "no memory for messages");
	t->next = NULL;
	t->queue = q;
	set_state(t, DDP__QUEUED);
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

/* The first of its queue has ended; what it held is let go. */
static void end(struct ddp__engine *en, struct ddp__task *t,
		enum ddp__task_state state)
{
	t->queue->first = t->next;
	if (t->state == DDP__UNDER_WAY && t->way == DDP__COLLECTIVE)
		ddp__cpu_op_release(&t->op);
	set_state(t, state);
	en->tasks--;
}

/* Empties a communicator's queues; its transports are done with the tasks. */
static void fail_queues(struct ddp_comm *c)
{
	struct ddp__engine *en = c->world->engine;
	struct ddp__cpu *cpu = c->state;

	cpu->shm.msgs = NULL;
	while (cpu->collectives.first)
		end(en, cpu->collectives.first, DDP__FAILED);
	for (int i = 0; cpu->messages && i < 2 * c->size; i++)
		while (cpu->messages[i].first)
			end(en, cpu->messages[i].first, DDP__FAILED);
}

void ddp__engine_fail(struct ddp_comm *c, const struct err *e)
{
	struct ddp__cpu *cpu = c->state;

	if (cpu->failed.code)
		return;
	cpu->failed = *e;
	/* whoever waits for me, here or on another host, hears of it */
	ddp__shm_abort(&cpu->shm, e);
	ddp__tcp_abort(&cpu->tcp, e);
	ddp__tcp_p2p_abort(&cpu->p2p, e);
	fail_queues(c);
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
	ddp__tcp_p2p_close(&cpu->p2p);
	fail_queues(c);
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

/* ---- a task, whatever way it goes */

static void prepare(struct ddp__task *t)
{
	const struct ddp__topology *topo = &t->c->topology;
	struct ddp__cpu *cpu = t->c->state;
	size_t size = ddp__call_bytes(t->call);
	int peer = t->call->root, sends = t->call->kind == DDP__SEND;

	set_state(t, DDP__UNDER_WAY);
	t->way = DDP__COLLECTIVE;
	if (!ddp__is_message(t->call)) {
		ddp__cpu_op_init(&t->op, t->c, t->call, t->send, t->recv);
	} else if (topo->host_of[peer] == topo->host_of[t->c->rank]) {
		t->way = DDP__SHM_MESSAGE;
		if (sends)
			ddp__shm_send(&t->shm, &cpu->shm, t->call, t->send,
				      size, topo->index_of[peer]);
		else
			ddp__shm_recv(&t->shm, &cpu->shm, t->call, t->recv,
				      size, topo->index_of[peer]);
	} else {
		t->way = DDP__TCP_MESSAGE;
		if (sends)
			ddp__tcp_send(&t->tcp, &cpu->p2p, t->call, t->send,
				      size);
		else
			ddp__tcp_recv(&t->tcp, &cpu->p2p, t->call, t->recv,
				      size);
	}
}

static int advance(struct ddp__task *t, struct err *e)
{
	if (t->way == DDP__SHM_MESSAGE)
		return ddp__shm_msg_advance(&t->shm, e);
	if (t->way == DDP__TCP_MESSAGE)
		return ddp__tcp_msg_advance(&t->tcp, e);
	return ddp__cpu_op_advance(&t->op, e);
}

static int has_moved(struct ddp__task *t)
{
	uint64_t before = t->moves;

	if (t->way == DDP__COLLECTIVE)
		return ddp__cpu_op_moved(&t->op);
	if (t->way == DDP__SHM_MESSAGE)
		t->moves = t->shm.got + ((uint64_t)t->shm.state << 56);
	else
		t->moves = t->tcp.moved;
	return t->moves != before;
}

/* 1 if it waits in one place, and has waited there; else 0. */
static int wait_for(struct ddp__task *t, struct err *e)
{
	int rc;

	if (t->way == DDP__COLLECTIVE && ddp__cpu_op_is_two(&t->op))
		return 0;
	if (t->way == DDP__COLLECTIVE)
		rc = ddp__cpu_op_run(&t->op, e);
	else if (t->way == DDP__SHM_MESSAGE)
		rc = ddp__shm_msg_run(&t->shm, e);
	else
		rc = ddp__tcp_msg_run(&t->tcp, e);
	return rc < 0 ? rc : 1;
}

/* In a host a receiver may read what I send, all by itself. */
static int has_other_moved(struct ddp__task *t)
{
	uint64_t before = t->both;

	if (t->way == DDP__SHM_MESSAGE)
		t->both = ddp__shm_msg_moves(&t->shm);
	return t->both != before;
}

/* A task that stands still: is there sense in waiting on? */
static int look(struct ddp__task *t, uint64_t now, struct err *e)
{
	struct ddp__cpu *cpu = t->c->state;
	uint64_t waited;
	int rc = 0;

	if (has_other_moved(t) || !t->since)
		t->since = now;
	waited = now - t->since;
	if (t->way == DDP__SHM_MESSAGE)
		return ddp__shm_msg_look(&t->shm, waited, e);
	if (t->way == DDP__TCP_MESSAGE)
		return ddp__tcp_msg_look(&t->tcp, waited, e);
	if (ddp__cpu_op_awaits_shm(&t->op))
		rc = ddp__shm_look(&cpu->shm, waited, e);
	if (!rc && t->op.tcp_busy)
		rc = ddp__tcp_look(&cpu->tcp, waited, e);
	return rc;
}

void ddp__engine_forgive(struct ddp__engine *en)
{
	for (struct ddp__queue *q = en->busy; q; q = q->next)
		if (q->first)
			q->first->since = 0;
}

/* ---- moving */

/* 1 if anything moved. */
static int move_queue(struct ddp__engine *en, struct ddp__queue *q)
{
	struct err e = ERR_INIT;
	int moved = 0;

	while (q->first) {
		struct ddp__task *t = q->first;
		int begins = t->state == DDP__QUEUED, rc;

		if (begins)
			prepare(t);
		rc = advance(t, &e);
		if (rc < 0) {
			ddp__engine_fail_in_wait(t->c, &e);
			return 1;
		}
		if (rc == 0) {
			if (!has_moved(t) && !begins)
				return moved;
			t->since = 0;
			return 1;
		}
		end(en, t, DDP__DONE);
		moved = 1;
	}
	return moved;
}

int ddp__engine_run(struct ddp_comm *c, const struct ddp__call *call,
		    const void *send, void *recv, struct err *e)
{
	struct ddp__task t;
	int rc;

	/* nothing more of it is used, and setting all of it takes its time */
	t.c = c;
	t.call = call;
	t.send = send;
	t.recv = recv;
	prepare(&t);
	rc = wait_for(&t, e);
	if (t.way == DDP__COLLECTIVE)
		ddp__cpu_op_release(&t.op);
	if (rc < 0)
		ddp__engine_fail_in_wait(c, e);
	return rc;
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
			ddp__engine_fail_in_wait(q->first->c, &e);
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

/* What is waited for over TCP; more than `most` there cannot be. */
static void add_sockets(struct ddp__task *t, struct ddp__sleeper *s)
{
	struct ddp__cpu *cpu = t->c->state;
	int rails = cpu->tcp.n * cpu->tcp.links * 2;
	int most = t->way == DDP__COLLECTIVE ? rails : 4 * t->c->size + 128;
	struct pollfd *p = make_room(s, most);

	if (!p)
		s->ms = s->ms ? 1 : 0;
	else if (t->way == DDP__COLLECTIVE)
		s->n += ddp__tcp_polls(&cpu->tcp, p, most);
	else
		s->n += ddp__tcp_p2p_polls(&cpu->p2p, p, most);
}

static void add_polls(struct ddp__task *t, struct ddp__sleeper *s)
{
	int op = t->way == DDP__COLLECTIVE;

	if (op ? t->op.tcp_busy : t->way == DDP__TCP_MESSAGE)
		add_sockets(t, s);
	if (op ? ddp__cpu_op_awaits_shm(&t->op) : t->way == DDP__SHM_MESSAGE)
		arm(t->c->state, s);
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

/* There is nothing but the head of one queue, and it waits in one place: so I
 * can do so too, which is quicker. */
static int wait_there(struct ddp__engine *en)
{
	struct ddp__queue *q = en->busy;
	struct ddp__task *t = q->first;
	struct err e = ERR_INIT;
	int rc;

	if (q->next)
		return 0;
	rc = wait_for(t, &e);
	if (rc < 0)
		ddp__engine_fail_in_wait(t->c, &e);
	else if (rc)
		end(en, t, DDP__DONE);
	ddp__engine_tidy(en, NULL);
	return rc != 0;
}

/* The call that waits for t returns only at its end. What it waits for is the
 * first of its queue: can that still go on? */
static void look_for_circle(const struct ddp__task *t,
			    struct ddp__standstill *w)
{
	const struct ddp__task *head = t->queue->first;
	const struct ddp__cpu *cpu = t->c->state;
	const struct ddp__call *call;
	struct err e = ERR_INIT;
	int from = DDP__FROM_OTHERS;

	if (!head || head->state != DDP__UNDER_WAY || !head->since ||
	    head->way != DDP__COLLECTIVE)
		return;
	call = head->call;
	if (ddp__cpu_op_awaits_shm(&head->op))
		call = ddp__shm_awaited(&cpu->shm, &from);
	else if (!head->op.tcp_busy)
		return;
	if (ddp__stands_still(w, call, from, clock_ns() - head->since, &e))
		ddp__engine_fail(t->c, &e);
}

static int has_ended(const struct ddp__task *t)
{
	return t->state == DDP__DONE || t->state == DDP__FAILED;
}

void ddp__engine_wait(struct ddp__engine *en, struct ddp__task *t,
		      int timeout_ms)
{
	struct ddp__standstill w = {&t->c->peers, 0};
	struct ddp__pace pace = {0, LOOK_FIRST_MS};
	uint64_t start = clock_ns();

	for (;;) {
		int moved = ddp__engine_move(en), ms;

		if (has_ended(t))
			break;
		if (timeout_ms >= 0) {
			uint64_t waited = (clock_ns() - start) / 1000000u;

			if (!moved)
				ddp__engine_look(en);
			if (waited >= (uint64_t)timeout_ms)
				break;
			ms = ddp__pace(&pace, moved, SPIN_NS);
			if (ms > timeout_ms - (int)waited)
				ms = timeout_ms - (int)waited;
		} else {
			moved |= wait_there(en);
			ms = ddp__pace(&pace, moved, SPIN_NS);
		}
		if (!ms)
			continue;
		ddp__engine_sleep(en, &en->sleeper, ms, -1);
		/* first: who left may have done so because of a circle */
		if (timeout_ms < 0)
			look_for_circle(t, &w);
		ddp__engine_look(en);
	}
	ddp__goes_on(&w);
}

/* task.c: collectives and messages as the engine's tasks. */
#include "worker-sdk/comm/engine.h"

#include <poll.h>
#include <stdlib.h>

#include "worker-sdk/comm/cpu.h"

/* ---- sleepers */

struct pollfd *ddp__sleeper_room(struct ddp__sleeper *s, int more)
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

/* Adds the descriptors for which p has to be polled. */
static void sleeper_add(struct ddp__sleeper *s, const struct ddp__path *p,
			int is_message)
{
	int max = p->transport->poll_max(p, is_message);
	struct pollfd *out = ddp__sleeper_room(s, max);

	if (out)
		s->n += p->transport->poll(p, is_message, out, max, &s->ms);
	else
		s->ms = s->ms ? 1 : 0;
}

/* ---- collectives */

static int collective_advance(struct ddp__task *t, struct err *e)
{
	return ddp__cpu_op_advance(&t->op, e);
}

static int collective_wait(struct ddp__task *t, struct err *e)
{
	return ddp__cpu_op_run(&t->op, e);
}

static int collective_has_moved(struct ddp__task *t)
{
	return ddp__cpu_op_moved(&t->op);
}

static int collective_check(struct ddp__task *t, uint64_t waited_ns,
			    struct err *e)
{
	return ddp__cpu_op_check(&t->op, waited_ns, e);
}

static void collective_poll(struct ddp__task *t, struct ddp__sleeper *s)
{
	const struct ddp__cpu *cpu = t->c->state;

	if (ddp__cpu_op_awaits_remote(&t->op))
		sleeper_add(s, &cpu->remote, 0);
	if (ddp__cpu_op_awaits_local(&t->op))
		sleeper_add(s, &cpu->local, 0);
}

static void collective_release(struct ddp__task *t)
{
	ddp__cpu_op_release(&t->op);
}

const struct ddp__task_kind ddp__task_collective = {
	.advance = collective_advance,
	.wait = collective_wait,
	.has_moved = collective_has_moved,
	.check = collective_check,
	.poll = collective_poll,
	.release = collective_release,
};

/* ---- messages */

static int message_advance(struct ddp__task *t, struct err *e)
{
	return t->path->transport->message.advance(&t->message, e);
}

static int message_wait(struct ddp__task *t, struct err *e)
{
	int rc = t->path->transport->message.wait(&t->message, e);

	return rc < 0 ? rc : 1;
}

static int message_has_moved(struct ddp__task *t)
{
	uint64_t before = t->moves;

	t->moves = t->path->transport->message.moved(&t->message);
	return t->moves != before;
}

static int message_has_either_moved(struct ddp__task *t)
{
	uint64_t before = t->both;

	t->both = t->path->transport->message.either_moved(&t->message);
	return t->both != before;
}

static int message_check(struct ddp__task *t, uint64_t waited_ns, struct err *e)
{
	return t->path->transport->message.check(&t->message, waited_ns, e);
}

static void message_poll(struct ddp__task *t, struct ddp__sleeper *s)
{
	sleeper_add(s, t->path, 1);
}

static const struct ddp__task_kind message = {
	.advance = message_advance,
	.wait = message_wait,
	.has_moved = message_has_moved,
	.has_either_moved = message_has_either_moved,
	.check = message_check,
	.poll = message_poll,
};

/* ---- tasks of any kind */

static void message_prepare(struct ddp__task *t)
{
	const struct ddp__topology *topo = &t->c->topology;
	const struct ddp__cpu *cpu = t->c->state;
	size_t size = ddp__call_bytes(t->call);
	int peer = t->call->root;
	const struct ddp__path *p = &cpu->remote;

	if (topo->host_of[peer] == topo->host_of[t->c->rank]) {
		p = &cpu->local;
		peer = topo->index_of[peer];
	}
	t->path = p;
	t->kind = &message;
	if (t->call->kind == DDP__SEND)
		p->transport->message.send(&t->message, p->messages, t->call,
					   t->send, size, peer);
	else
		p->transport->message.recv(&t->message, p->messages, t->call,
					   t->recv, size, peer);
}

void ddp__task_prepare(struct ddp__task *t)
{
	ddp__task_set_state(t, DDP__UNDER_WAY);
	if (ddp__is_message(t->call)) {
		message_prepare(t);
		return;
	}
	t->kind = &ddp__task_collective;
	ddp__cpu_op_init(&t->op, t->c, t->call, t->send, t->recv);
}

int ddp__task_check(struct ddp__task *t, uint64_t now, struct err *e)
{
	int moved = t->kind->has_either_moved && t->kind->has_either_moved(t);

	if (moved || !t->since)
		t->since = now;
	return t->kind->check(t, now - t->since, e);
}

/* step.c: lists a state's possible steps, applies them, and prints them. */
#include <assert.h>
#include <string.h>

#include "tests/model/model.h"

int step_is_progress(enum step_kind kind)
{
	return kind < STEP_FAIL;
}

/* ---- the possible steps ---- */

struct list {
	struct step *steps;
	size_t n;
};

static void step_put(struct list *l, enum step_kind kind, int node, int arg)
{
	assert(l->n < STEPS_MAX);
	l->steps[l->n++] =
		(struct step){(uint8_t)kind, (uint8_t)node, (uint8_t)arg};
}

static int server_listens(const struct world *w)
{
	return w->server.life == SERVER_UP && !w->server.draining;
}

static int has_parent(const struct world *w)
{
	return w->agents[0].life == LIFE_UP;
}

static void step_list_workers(struct list *l, const struct agent *a, int i)
{
	int running = agent_running(a);

	if (a->state == STOPPING || a->state == RESTARTING ||
	    (running && (a->state == NOTIFIED || a->state == KILLING)))
		step_put(l, STEP_WORKERS_GONE, i, 0);
	for (int k = 0; k < WORKERS_MAX; k++)
		if (a->workers[k] == WORKER_RUNS &&
		    (a->state == RUNNING || a->state == NOTIFIED))
			step_put(l, STEP_EXIT, i, k);
	if (a->state == KILLING && !running &&
	    a->membership.state == MEMBER_DETACHED)
		step_put(l, STEP_KILL_GRACE, i, 0);
}

/* The steps of agent i that need no frame from the server. */
static void step_list_local(struct list *l, const struct world *w, int i)
{
	const struct agent *a = &w->agents[i];
	int looks = a->link == LINK_DOWN &&
		    (a->membership.state == MEMBER_RENEWING ||
		     a->membership.state == MEMBER_RECONNECTING);

	if (a->life != LIFE_UP)
		return;
	if (looks && server_listens(w))
		step_put(l, STEP_RECONNECT, i, 0);
	if (looks && w->server.life == SERVER_GONE)
		step_put(l, STEP_DETACH, i, 0);
	step_list_workers(l, a, i);
}

static int nobody_is_attached(const struct world *w)
{
	for (int i = 0; i < NODES_MAX; i++)
		if (w->server.peers[i].attached || w->server.peers[i].half ||
		    w->to_agent[i].n || w->to_server[i].n)
			return 0;
	return 1;
}

static void step_list_server(struct list *l, const struct world *w)
{
	const struct server *s = &w->server;

	if (s->life == SERVER_DEAD)
		step_put(l, STEP_NEXT_SERVER, 0, 0);
	if (s->life != SERVER_UP)
		return;
	for (int i = 0; i < NODES_MAX; i++) {
		if (s->peers[i].half)
			step_put(l, STEP_SEES_HALF, i, 0);
		for (int k = 0; k < 2; k++)
			if (s->absent[i] >> k & 1)
				step_put(l, STEP_ABSENT, i, k);
	}
	if (s->calling)
		step_put(l, STEP_LAST_CALL, 0, 0);
	if (setup->hosted && !s->draining && !has_parent(w) &&
	    w->agents[0].life != LIFE_OUT && !w->to_server[0].n &&
	    !s->peers[0].half)
		step_put(l, STEP_PARENT_GONE, 0, 0);
	if (s->draining && nobody_is_attached(w))
		step_put(l, STEP_SERVER_EXITS, 0, 0);
}

static int step_may_return(const struct world *w, int i)
{
	const struct queue *q = &w->to_server[i];

	return w->agents[i].life == LIFE_KILLED && !w->agents[i].number &&
	       server_listens(w) && !(setup->hosted && i == 0) &&
	       (!q->n || (q->n == 1 && q->at[0].type == MESSAGE_CLOSE)) &&
	       !w->server.peers[i].half;
}

static void step_list_faults_of(struct list *l, const struct world *w, int i)
{
	const struct agent *a = &w->agents[i];
	const struct peer_end *p = &w->server.peers[i];

	if (a->life != LIFE_UP)
		return;
	for (int k = 0; k < WORKERS_MAX; k++)
		if (a->workers[k] == WORKER_RUNS &&
		    (a->state == RUNNING || a->state == NOTIFIED))
			step_put(l, STEP_FAIL, i, k);
	if (a->state == RUNNING && agent_running(a) == (int)setup->nproc[i])
		step_put(l, STEP_CANNOT_START, i, 0);
	step_put(l, STEP_KILL, i, 0);
	if (a->link == LINK_UP && !p->half) {
		step_put(l, STEP_RESET, i, 0);
		step_put(l, STEP_RENEW, i, 0);
	}
	if (a->link == LINK_UP && p->attached)
		step_put(l, STEP_LEASE, i, 0);
	step_put(l, STEP_SIGNAL, i, 0);
	step_put(l, STEP_SIGNAL_JOB, i, 0);
	if (!a->dismissed)
		step_put(l, STEP_SSH, i, 0);
}

static void step_list_faults(struct list *l, const struct world *w)
{
	for (int i = 0; i < NODES_MAX; i++)
		step_list_faults_of(l, w, i);
	if (server_listens(w) && (!setup->hosted || has_parent(w)))
		step_put(l, STEP_DIE, 0, 0);
	if (server_listens(w) && !setup->hosted)
		step_put(l, STEP_STOP_SERVER, 0, 0);
}

/* If no fault is left, an agent that can do nothing else reads its frame before
 * any other step: no other part can observe the difference. */
static int step_list_first_read(struct list *l, const struct world *w)
{
	for (int i = 0; i < NODES_MAX && !w->faults; i++) {
		l->n = 0;
		if (!w->to_agent[i].n)
			continue;
		step_list_local(l, w, i);
		if (l->n)
			continue;
		step_put(l, STEP_TO_AGENT, i, 0);
		return 1;
	}
	l->n = 0;
	return 0;
}

/* The timeouts, which are possible only if nothing else is. */
static void step_list_timeouts(struct list *l, const struct agent *a, int i)
{
	if (a->life != LIFE_UP)
		return;
	if (membership_has_deadline(&a->membership))
		step_put(l, STEP_DEADLINE, i, 0);
	if (a->state == NOTIFIED || a->state == KILLING)
		step_put(l, STEP_GRACE, i, 0);
}

size_t step_list(struct run *r, struct step *out)
{
	const struct world *w = &r->w;
	struct list l = {.steps = out};
	size_t progress;

	if (step_list_first_read(&l, w))
		return l.n;
	for (int i = 0; i < (int)setup->nodes; i++)
		if (w->agents[i].life == LIFE_OUT && server_listens(w))
			step_put(&l, STEP_COME, i, 0);
	for (int i = 0; i < NODES_MAX; i++) {
		if (w->to_agent[i].n)
			step_put(&l, STEP_TO_AGENT, i, 0);
		if (w->to_server[i].n && w->server.life == SERVER_UP)
			step_put(&l, STEP_TO_SERVER, i, 0);
		step_list_local(&l, w, i);
	}
	step_list_server(&l, w);
	progress = l.n;
	if (w->faults)
		step_list_faults(&l, w);
	for (int i = 0; i < NODES_MAX; i++)
		if (step_may_return(w, i))
			step_put(&l, STEP_RETURN, i, 0);
	for (int i = 0; i < NODES_MAX && !progress; i++)
		step_list_timeouts(&l, &w->agents[i], i);
	return l.n;
}

/* ---- their effects ---- */

static void step_next_server(struct run *r)
{
	if (setup->hosted && !has_parent(&r->w))
		server_exit(r);
	else
		server_start(r);
}

static int step_exit_code(int node)
{
	return setup->broken >> node & 1 ? 7 : 0;
}

static void step_apply_progress(struct run *r, struct step s)
{
	switch (s.kind) {
	case STEP_COME:
		agent_come(r, s.node);
		break;
	case STEP_TO_AGENT:
		agent_take(r, s.node);
		break;
	case STEP_TO_SERVER:
		server_take(r, s.node);
		break;
	case STEP_RECONNECT:
		agent_reconnect(r, s.node);
		break;
	case STEP_WORKERS_GONE:
		agent_workers_gone(r, s.node);
		break;
	case STEP_EXIT:
		agent_worker_exits(r, s.node, s.arg, step_exit_code(s.node));
		break;
	case STEP_SEES_HALF:
		server_sees_half(r, s.node);
		break;
	case STEP_NEXT_SERVER:
		step_next_server(r);
		break;
	case STEP_PARENT_GONE:
		server_stop(r, 1);
		break;
	case STEP_SERVER_EXITS:
		server_exit(r);
		break;
	case STEP_DETACH:
		agent_detach(r, s.node);
		break;
	case STEP_KILL_GRACE:
		agent_grace(r, s.node);
		break;
	case STEP_LAST_CALL:
		server_last_call(r);
		break;
	case STEP_ABSENT:
		server_absent(r, s.node, s.arg);
		break;
	default:
		assert(0);
	}
}

static void step_apply_fault(struct run *r, struct step s)
{
	switch (s.kind) {
	case STEP_FAIL:
		agent_worker_exits(r, s.node, s.arg, 7);
		break;
	case STEP_CANNOT_START:
		agent_cannot_start(r, s.node);
		break;
	case STEP_KILL:
		agent_killed(r, s.node);
		break;
	case STEP_RESET:
		server_reset(r, s.node, MEMBER_ON_AWAY);
		break;
	case STEP_RENEW:
		server_reset(r, s.node, MEMBER_ON_STALLED);
		break;
	case STEP_LEASE:
		server_lease(r, s.node);
		break;
	case STEP_DIE:
		server_die(r);
		break;
	case STEP_SIGNAL:
		agent_signal(r, s.node, 0, 0);
		break;
	case STEP_SIGNAL_JOB:
		agent_signal(r, s.node, 1, 0);
		break;
	case STEP_SSH:
		agent_signal(r, s.node, 0, 1);
		break;
	case STEP_STOP_SERVER:
		server_stop(r, 0);
		break;
	default:
		assert(0);
	}
}

void step_apply(struct run *r, struct step s)
{
	if (step_is_progress(s.kind)) {
		step_apply_progress(r, s);
	} else if (s.kind == STEP_DEADLINE) {
		agent_deadline(r, s.node);
	} else if (s.kind == STEP_GRACE) {
		agent_grace(r, s.node);
	} else if (s.kind == STEP_RETURN) {
		server_before_return(r, s.node);
		agent_come(r, s.node);
	} else {
		r->w.faults--;
		step_apply_fault(r, s);
	}
}

/* ---- in words ---- */

static const char *verdict_name(int verdict)
{
	static const char *const names[] = {"SUCCESS", "FAILURE", "RESTART",
					    "ENDED", "REGROUP"};

	return names[verdict];
}

static void message_text(const struct message *m, struct buf *out)
{
	static const char *const known[] = {"unknown", "known", "lost", "over"};

	buf_printf(out, "%s",
		   m->type == MESSAGE_CLOSE ? "the end of the "
					      "connection"
					    : wire_type_name(m->type));
	switch (m->type) {
	case WIRE_START:
		buf_printf(out,
			   " of round %d: node %d of %d, ranks from %d of "
			   "%d",
			   m->round, m->node_rank, m->nnodes, m->rank,
			   m->world);
		break;
	case WIRE_END:
		buf_printf(out, " of round %d: %s, exit code %d", m->round,
			   verdict_name(m->verdict), m->code);
		break;
	case WIRE_EXITED:
		buf_printf(out, " of round %d: rank %d, code %d, signal %d%s",
			   m->round, m->rank, m->code, m->signal,
			   m->stopped ? ", stopped" : "");
		break;
	case WIRE_STOP:
		buf_printf(out, " at level %d%s", m->level,
			   m->whole ? " for the job" : "");
		break;
	case WIRE_STATE:
		buf_printf(out, m->spare ? ": a spare" : ": no spare");
		break;
	case WIRE_RESUME:
		buf_printf(out,
			   ": %s, joined %d, heard %d; began %d, round "
			   "%d, ended %d",
			   known[m->known], m->joined, m->heard, m->began,
			   m->round, m->ended);
		break;
	default:
		break;
	}
}

static const char *const texts[STEP_KINDS] = {
	[STEP_COME] = "agent %d starts, connects and sends JOIN",
	[STEP_TO_AGENT] = "agent %d reads ",
	[STEP_TO_SERVER] = "the server reads from agent %d ",
	[STEP_RECONNECT] = "agent %d connects again and sends RESUME",
	[STEP_WORKERS_GONE] = "the workers of agent %d have stopped",
	[STEP_EXIT] = "a worker of agent %d exits: local rank ",
	[STEP_SEES_HALF] = "the server sees that a connection of agent %d "
			   "has ended",
	[STEP_NEXT_SERVER] = "another server starts",
	[STEP_PARENT_GONE] = "the server sees that the ddprun that started it "
			     "has gone",
	[STEP_SERVER_EXITS] = "the server exits",
	[STEP_DETACH] = "agent %d stops looking for a server",
	[STEP_KILL_GRACE] = "agent %d, which killed all, waits no longer",
	[STEP_GRACE] = "the grace period of agent %d ends",
	[STEP_LAST_CALL] = "the last call is over",
	[STEP_ABSENT] = "the agent of node %d has not come back in time: "
			"start number ",
	[STEP_FAIL] = "FAULT: a worker of agent %d exits with 7: local rank ",
	[STEP_CANNOT_START] = "FAULT: agent %d cannot start its workers",
	[STEP_KILL] = "FAULT: agent %d is killed",
	[STEP_RESET] = "FAULT: the connection of agent %d is reset",
	[STEP_RENEW] = "FAULT: agent %d replaces its stalled connection",
	[STEP_LEASE] = "FAULT: the server has not heard from agent %d for its "
		       "lease",
	[STEP_DIE] = "FAULT: the server dies",
	[STEP_SIGNAL] = "FAULT: agent %d gets a stop signal",
	[STEP_SIGNAL_JOB] = "FAULT: agent %d gets the whole job's stop signal",
	[STEP_SSH] = "FAULT: the ssh that started agent %d ends",
	[STEP_STOP_SERVER] = "FAULT: the server gets SIGTERM",
	[STEP_RETURN] = "agent %d is started again",
	[STEP_DEADLINE] = "agent %d gives up waiting",
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void step_text(const struct run *r, struct step s, struct buf *out)
{
	buf_printf(out, texts[s.kind], s.node);
	if (s.kind == STEP_TO_AGENT)
		message_text(&r->w.to_agent[s.node].at[0], out);
	else if (s.kind == STEP_TO_SERVER)
		message_text(&r->w.to_server[s.node].at[0], out);
	else if (s.kind == STEP_EXIT || s.kind == STEP_FAIL ||
		 s.kind == STEP_ABSENT)
		buf_printf(out, "%d", s.arg);
}
#pragma GCC diagnostic pop

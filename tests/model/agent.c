/* agent.c: a model of ddprun. The tables of launcher/agent and
 * launcher/membership decide; the actions follow agent_acts.c and member.c,
 * without connections, timers and processes. */
#include <signal.h>
#include <string.h>

#include "tests/model/model.h"

enum { EXIT_LOST = 69, EXIT_TIMED_OUT = 75, EXIT_REFUSED = 76 };

/* The arguments of a membership event. */
struct news {
	const struct message *message;
	uint32_t heard;
	int exit_code;
};

static void agent_handle(struct run *r, int i, enum agent_event ev);
static void agent_step(struct run *r, int i, enum membership_event ev,
		       const struct news *news);

int agent_running(const struct agent *a)
{
	int n = 0;

	for (int k = 0; k < WORKERS_MAX; k++)
		n += a->workers[k] == WORKER_RUNS;
	return n;
}

static int agent_is_detached(const struct agent *a)
{
	return a->membership.state == MEMBER_DETACHED;
}

static int agent_works(const struct agent *a)
{
	return a->state == RUNNING || a->state == NOTIFIED;
}

/* ---- sending ---- */

static void agent_send(struct run *r, int i, const struct message *m)
{
	if (r->w.agents[i].link == LINK_UP)
		queue_put(&r->w.to_server[i], m);
}

static void agent_hang_up(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	agent_send(r, i, &(struct message){.type = MESSAGE_CLOSE});
	a->link = LINK_DOWN;
	queue_clear(&r->w.to_agent[i]);
}

static void agent_notify(struct run *r, int i, const struct message *m,
			 int is_urgent)
{
	struct agent *a = &r->w.agents[i];

	queue_put(&a->outbox, m);
	a->is_urgent |= is_urgent != 0;
	if (membership_is_heard(&a->membership))
		agent_send(r, i, m);
	if (is_urgent && agent_is_detached(a))
		agent_step(r, i, MEMBER_ON_NEEDED, NULL);
}

/* ---- workers ---- */

static void agent_start_workers(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	if (agent_running(a))
		violate("node %d starts workers while others of it run", i);
	for (uint32_t k = 0; k < setup->nproc[i]; k++)
		a->workers[k] = WORKER_RUNS;
}

static void agent_forget_workers(struct agent *a)
{
	memset(a->workers, WORKER_NONE, sizeof(a->workers));
}

/* Without a server this node ends when its workers have ended. */
static void agent_end_detached(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	if (!agent_is_detached(a) || !agent_works(a) || agent_running(a))
		return;
	if (a->exit_code < 0)
		a->exit_code = a->notice ? 128 + SIGTERM : 0;
	agent_handle(r, i, EV_END);
}

static void agent_report_exit(struct run *r, int i, int k, int code, int sig,
			      int stopped)
{
	struct agent *a = &r->w.agents[i];
	struct audit *audit = &r->w.audit;
	const struct message m = {
		.type = WIRE_EXITED,
		.round = a->round,
		.rank = (uint8_t)(a->base + k),
		.code = (int16_t)code,
		.signal = (int16_t)sig,
		.stopped = (uint8_t)stopped,
	};

	a->workers[k] = WORKER_ENDED;
	if (!code && !sig && a->round + 1 == audit->starts &&
	    a->job == audit->jobs)
		audit->done++;
	if (code)
		audit->failures++;
	agent_notify(r, i, &m, code || sig);
}

void agent_worker_exits(struct run *r, int i, int k, int code)
{
	agent_report_exit(r, i, k, code, 0, 0);
	agent_end_detached(r, i);
}

void agent_workers_gone(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];
	int sig = a->state == KILLING ? SIGKILL : SIGTERM;

	for (int k = 0; k < WORKERS_MAX; k++)
		if (a->workers[k] == WORKER_RUNS)
			agent_report_exit(r, i, k, 0, sig, 1);
	agent_end_detached(r, i);
	if (a->state == STOPPING || a->state == RESTARTING)
		agent_handle(r, i, EV_EMPTY);
}

void agent_cannot_start(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];
	const struct message m = {.type = WIRE_FAILED, .round = a->round};

	agent_forget_workers(a);
	agent_notify(r, i, &m, 1);
}

/* ---- the agent's actions ---- */

static void do_join(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	agent_forget_workers(a);
	agent_step(r, i, MEMBER_ON_JOIN, NULL);
}

/* Without --restart-backoff; a wait only delays the JOIN. */
static void do_back_off(struct run *r, int i)
{
	agent_handle(r, i, EV_DUE);
}

static void do_kill_job(struct run *r, int i)
{
	const struct message m = {.type = WIRE_STOP,
				  .level = WIRE_CUT,
				  .whole = 1,
				  .signal = SIGKILL};

	r->w.agents[i].notice = WIRE_CUT;
	agent_notify(r, i, &m, 1);
}

static void do_leave(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	if (agent_running(a))
		violate("node %d leaves while workers of it run", i);
	if (a->notice && a->exit_code < 0)
		a->exit_code = 128 + SIGTERM;
	if (a->exit_code < 0)
		violate("node %d leaves without an exit code", i);
	agent_hang_up(r, i);
	*a = (struct agent){.life = LIFE_EXITED,
			    .number = a->number,
			    .exit_code = a->exit_code};
}

static void do_decline(struct run *r, int i)
{
	const struct message m = {.type = WIRE_LEAVE, .signal = SIGTERM};

	agent_send(r, i, &m);
	do_leave(r, i);
}

static void agent_handle(struct run *r, int i, enum agent_event ev)
{
	static void (*const acts[ACTS])(struct run * r, int i) = {
		[ACT_JOIN] = do_join,
		[ACT_BACK_OFF] = do_back_off,
		[ACT_START_WORKERS] = agent_start_workers,
		[ACT_KILL_JOB] = do_kill_job,
		[ACT_DECLINE] = do_decline,
		[ACT_LEAVE] = do_leave,
	};
	struct agent *a = &r->w.agents[i];
	const struct agent_edge *edge = agent_edge(a->state, ev);

	if (!edge->known)
		return;
	a->state = (uint8_t)edge->next;
	if (acts[edge->act])
		acts[edge->act](r, i);
}

/* ---- the membership's actions ---- */

static void do_connect(struct run *r, int i, const struct news *news)
{
	r->w.agents[i].link = LINK_UP;
	agent_step(r, i, MEMBER_ON_GREETED, NULL);
}

static void do_send_join(struct run *r, int i, const struct news *news)
{
	struct agent *a = &r->w.agents[i];

	queue_clear(&a->outbox);
	a->is_urgent = 0;
	agent_send(r, i, &(struct message){.type = WIRE_JOIN});
}

static void do_start(struct run *r, int i, const struct news *news)
{
	struct agent *a = &r->w.agents[i];
	const struct message *m = news->message;

	if (a->has_started && m->round <= a->round)
		violate("node %d gets the START of round %d after round %d", i,
			m->round, a->round);
	a->ended = 0;
	a->has_started = 1;
	a->round = m->round;
	a->base = m->rank;
	a->job = m->job;
	agent_handle(r, i, EV_START);
}

static void agent_on_round_end(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	a->ended = 1;
	if (a->notice && a->exit_code < 0)
		a->exit_code = 128 + SIGTERM;
	agent_handle(r, i, EV_RESTART);
}

static void do_end(struct run *r, int i, const struct news *news)
{
	struct agent *a = &r->w.agents[i];
	const struct message *m = news->message;

	if (a->membership.state == MEMBER_CLOSED) {
		agent_hang_up(r, i);
		if (a->exit_code < 0)
			a->exit_code = m->code;
		agent_handle(r, i, EV_END);
		return;
	}
	if (!a->has_started || m->round != a->round)
		violate("node %d gets the END of round %d, and its last one "
			"was %d",
			i, m->round, a->has_started ? a->round : -1);
	else if (a->ended)
		violate("node %d gets the END of round %d twice", i, m->round);
	agent_on_round_end(r, i);
}

static void do_send_resume(struct run *r, int i, const struct news *news)
{
	struct agent *a = &r->w.agents[i];
	const struct message m = {
		.type = WIRE_RESUME,
		.began = a->has_started,
		.ended =
			a->has_started && a->membership.place != MEMBER_RUNNING,
		.round = a->round,
	};

	agent_send(r, i, &m);
}

static void do_replay(struct run *r, int i, const struct news *news)
{
	const struct agent *a = &r->w.agents[i];

	if (news->heard > a->outbox.n && news->heard != UINT32_MAX)
		violate("the server has heard %u notices of node %d, which "
			"sent %u",
			news->heard, i, a->outbox.n);
	for (uint32_t k = news->heard; k < a->outbox.n; k++)
		agent_send(r, i, &a->outbox.at[k]);
}

static void do_be_expelled(struct run *r, int i, const struct news *news)
{
	agent_on_round_end(r, i);
}

static void do_detach(struct run *r, int i, const struct news *news)
{
	struct agent *a = &r->w.agents[i];

	if (membership_waits(&a->membership) || a->is_urgent)
		agent_step(r, i, MEMBER_ON_NEEDED, NULL);
	else
		agent_end_detached(r, i);
}

static void do_fail(struct run *r, int i, const struct news *news)
{
	struct agent *a = &r->w.agents[i];

	agent_hang_up(r, i);
	if (a->exit_code < 0)
		a->exit_code = (int16_t)(news ? news->exit_code : EXIT_LOST);
	agent_handle(r, i, EV_LOST);
}

static void agent_step(struct run *r, int i, enum membership_event ev,
		       const struct news *news)
{
	static void (*const acts[MEMBER_ACTS])(struct run * r, int i,
					       const struct news *news) = {
		[MEMBER_DO_CONNECT] = do_connect,
		[MEMBER_DO_FINISH_JOIN] = do_send_join,
		[MEMBER_DO_JOIN] = do_send_join,
		[MEMBER_DO_REJOIN] = do_send_join,
		[MEMBER_DO_START] = do_start,
		[MEMBER_DO_END] = do_end,
		[MEMBER_DO_RESUME] = do_send_resume,
		[MEMBER_DO_REPLAY] = do_replay,
		[MEMBER_DO_BE_EXPELLED] = do_be_expelled,
		[MEMBER_DO_DETACH] = do_detach,
		[MEMBER_DO_LOSE] = do_fail,
		[MEMBER_DO_FAIL] = do_fail,
	};
	const struct membership_edge *edge =
		membership_step(&r->w.agents[i].membership, ev);

	if (edge->is_known && acts[edge->act])
		acts[edge->act](r, i, news);
}

/* ---- frames from the server ---- */

static void agent_on_start(struct run *r, int i, const struct message *m)
{
	const struct agent *a = &r->w.agents[i];
	const struct news news = {.message = m};

	/* both tables ignore unknown events */
	if (!membership_waits(&a->membership) || agent_running(a) ||
	    !agent_edge(a->state, EV_START)->known)
		violate("node %d gets the START of round %d in state %s, "
			"while %d workers of round %d run",
			i, m->round, agent_state_names[a->state],
			agent_running(a), a->round);
	agent_step(r, i, MEMBER_ON_START, &news);
}

static void agent_on_end(struct run *r, int i, const struct message *m)
{
	const struct news news = {.message = m};

	if (m->verdict == WIRE_RESTART || m->verdict == WIRE_REGROUP)
		agent_step(r, i, MEMBER_ON_ROUND_END, &news);
	else
		agent_step(r, i, MEMBER_ON_JOB_END, &news);
}

static void agent_on_state(struct run *r, int i, const struct message *m)
{
	int is_spare = r->w.agents[i].membership.state == MEMBER_SPARE;

	if (m->spare && !is_spare)
		agent_step(r, i, MEMBER_ON_SPARE, NULL);
	else if (!m->spare && is_spare)
		agent_step(r, i, MEMBER_ON_COUNTED, NULL);
}

static void agent_on_stop(struct run *r, int i, const struct message *m)
{
	struct agent *a = &r->w.agents[i];

	if (m->level <= a->notice)
		return;
	a->notice = m->level;
	agent_handle(r, i, m->level == WIRE_CUT ? EV_KILL : EV_STOP);
}

static void agent_on_resumed(struct run *r, int i, const struct message *m)
{
	struct agent *a = &r->w.agents[i];
	struct news news = {.message = m, .heard = m->heard};
	enum membership_event ev = MEMBER_ON_RESUMED;
	int waits = membership_waits(&a->membership);

	if (!membership_is_away(&a->membership))
		return;
	if (m->known == WIRE_KNOWN) {
		if (waits && !m->joined)
			ev = MEMBER_ON_UNJOINED;
	} else if (m->known == WIRE_LOST && a->has_started) {
		news.heard = UINT32_MAX;
		if (waits)
			ev = MEMBER_ON_UNJOINED;
		else if (a->membership.place != MEMBER_EXPELLED)
			ev = MEMBER_ON_EXPELLED;
	} else if (!a->has_started) {
		ev = MEMBER_ON_UNJOINED;
	} else {
		a->is_urgent |= m->known == WIRE_OVER;
		ev = MEMBER_ON_FORGOTTEN;
	}
	agent_step(r, i, ev, &news);
}

void agent_link_lost(struct run *r, int i, enum membership_event ev)
{
	struct agent *a = &r->w.agents[i];

	queue_clear(&r->w.to_agent[i]);
	queue_clear(&r->w.to_server[i]);
	a->link = LINK_DOWN;
	if (a->life == LIFE_UP)
		agent_step(r, i, ev, NULL);
}

void agent_take(struct run *r, int i)
{
	const struct message m = queue_take(&r->w.to_agent[i]);

	switch (m.type) {
	case WIRE_STATE:
		agent_on_state(r, i, &m);
		break;
	case WIRE_START:
		agent_on_start(r, i, &m);
		break;
	case WIRE_END:
		agent_on_end(r, i, &m);
		break;
	case WIRE_STOP:
		agent_on_stop(r, i, &m);
		break;
	case WIRE_RESUME:
		agent_on_resumed(r, i, &m);
		break;
	case WIRE_JOIN:
		violate("the JOIN of node %d is refused", i);
		break;
	case MESSAGE_CLOSE:
		agent_link_lost(r, i, MEMBER_ON_AWAY);
		break;
	default:
		violate("the server sends a frame of type %d", m.type);
	}
}

/* ---- steps of the agent ---- */

void agent_come(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];
	int number = a->life == LIFE_KILLED ? a->number + 1 : 0;

	*a = (struct agent){
		.life = LIFE_UP,
		.number = (uint8_t)number,
		.state = JOINING,
		.exit_code = -1,
	};
	r->w.audit.home[i] = -1;
	agent_step(r, i, MEMBER_ON_JOIN, NULL);
}

void agent_reconnect(struct run *r, int i)
{
	r->w.agents[i].link = LINK_UP;
	agent_step(r, i, MEMBER_ON_GREETED, NULL);
}

void agent_detach(struct run *r, int i)
{
	agent_step(r, i, MEMBER_ON_DETACH, NULL);
}

void agent_deadline(struct run *r, int i)
{
	const struct news news = {.exit_code = EXIT_TIMED_OUT};

	agent_step(r, i, MEMBER_ON_FAIL, &news);
}

void agent_grace(struct run *r, int i)
{
	agent_handle(r, i, EV_GRACE);
}

void agent_killed(struct run *r, int i)
{
	struct agent *a = &r->w.agents[i];

	agent_hang_up(r, i);
	*a = (struct agent){
		.life = LIFE_KILLED, .number = a->number, .exit_code = -1};
}

/* ---- requests to stop ---- */

static int agent_has_work(const struct agent *a, int whole)
{
	return agent_works(a) || a->state == KILLING ||
	       (a->state == JOINING && whole &&
		a->membership.place == MEMBER_SPARE);
}

static void agent_stop_workers(struct run *r, int i, int whole, int by_ssh)
{
	struct agent *a = &r->w.agents[i];
	const struct message m = {
		.type = WIRE_STOP,
		.level = WIRE_STOPPED,
		.signal = SIGTERM,
		.whole = (uint8_t)whole,
		.by_ssh = (uint8_t)by_ssh,
	};

	if (!a->notice && !agent_is_detached(a))
		agent_notify(r, i, &m, 1);
	if (a->notice)
		return;
	a->notice = WIRE_STOPPED;
	agent_handle(r, i, EV_STOP);
}

static void agent_stop_alone(struct run *r, int i, int by_ssh)
{
	struct agent *a = &r->w.agents[i];
	const struct message m = {
		.type = WIRE_LEAVE,
		.signal = by_ssh ? 0 : SIGTERM,
	};

	if (a->exit_code < 0) {
		agent_send(r, i, &m);
		a->exit_code = 128 + SIGTERM;
	}
	agent_handle(r, i, EV_SIGNAL);
}

/* A second signal kills the workers. */
void agent_signal(struct run *r, int i, int whole, int by_ssh)
{
	struct agent *a = &r->w.agents[i];

	if (a->dismissed)
		agent_handle(r, i,
			     agent_has_work(a, whole) ? EV_KILL : EV_SIGNAL);
	else if (agent_has_work(a, whole))
		agent_stop_workers(r, i, whole, by_ssh);
	else
		agent_stop_alone(r, i, by_ssh);
	if (a->life == LIFE_UP)
		a->dismissed = 1;
}

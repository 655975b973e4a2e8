/* hosted_job_act.c: a job's actions become frames to its agents, and answers to
 * its workers. */
#include "rendezvous/server/hosted_job.h"

#include <stdlib.h>
#include <sysexits.h>

#include "base/log.h"
#include "rendezvous/server/limits.h"

enum {
	STATE_DELAY_MS = 20, /* joins in a row are reported together */
	STATE_LATEST_MS = 250,
	STATES_PER_MS = 10, /* at most: a twentieth of the server's time */
	LOOK_MS = 3500, /* an agent takes 3 s at most */
};

/* At least 1, because 0 means that there is no last call. */
static uint32_t hosted_job_last_call_ms(const struct hosted_job *h)
{
	uint64_t left = uv_timer_get_due_in(&h->call_timer);

	return left ? (uint32_t)left : 1;
}

static void hosted_job_broadcast_state(struct hosted_job *h)
{
	struct job_node *n = NULL;
	struct wire_state m;

	h->states_sent = 0;
	job_state_for(h->job, &m);
	if (m.last_call_ms)
		m.last_call_ms = hosted_job_last_call_ms(h);
	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (!to || !job_node_waits(h->job, n))
			continue;
		h->states_sent++;
		m.spare = (uint8_t)job_node_is_spare(n);
		wire_put_state(conn_out(&to->conn), WIRE_STATE, WIRE_NOTICE, 0,
			       &m);
	}
	conn_flush_all(&h->server->pool);
}

/* A thousand joins a second must not cause a million messages: while nodes keep
 * joining, STATE is sent late, and seldom enough that it takes about a
 * twentieth of the server's time, however many nodes wait. */
static void hosted_job_on_state_timer(uv_timer_t *t)
{
	struct hosted_job *h = t->data;
	uint64_t latest = h->states_sent / STATES_PER_MS;

	if (latest < STATE_LATEST_MS)
		latest = STATE_LATEST_MS;
	if (h->is_state_stale &&
	    uv_now(h->server->loop) - h->state_since < latest) {
		h->is_state_stale = 0;
		uv_timer_start(t, hosted_job_on_state_timer, STATE_DELAY_MS, 0);
		return;
	}
	hosted_job_broadcast_state(h);
}

void hosted_job_send_state(struct hosted_job *h)
{
	h->is_state_stale = 1;
	if (uv_is_active((uv_handle_t *)&h->state_timer))
		return;
	h->is_state_stale = 0;
	h->state_since = uv_now(h->server->loop);
	uv_timer_start(&h->state_timer, hosted_job_on_state_timer,
		       STATE_DELAY_MS, 0);
}

void hosted_job_send_start(struct hosted_job *h, const struct job_node *n)
{
	struct peer *to = job_node_owner(n);
	struct wire_start m;

	if (!to || !job_node_runs(n))
		return;
	job_start_for(h->job, n, &m);
	if (h->torch_port) {
		m.master_port = h->torch_port;
		m.agent_store = 1;
	}
	wire_put_start(conn_out(&to->conn), WIRE_START, WIRE_NOTICE, 0, &m);
}

static void hosted_job_start_round(struct hosted_job *h)
{
	struct job_node *n = NULL;

	uv_timer_stop(&h->call_timer);
	h->since = uv_now(h->server->loop);
	h->server->counts.rounds++;
	if (hosted_job_make_store(h) < 0) {
		job_event_stopped(h, "the rendezvous server is out of memory");
		return;
	}
	/* in replay the next record has the former server's port, which no
	 * longer exists */
	if (!h->server->writer.mute)
		SERVER_CALL_HOOK(h->server, on_round, h);
	while ((n = job_next_node(h->job, n)))
		hosted_job_send_start(h, n);
}

static void hosted_job_send_stop(struct hosted_job *h)
{
	struct job_node *n = NULL;
	struct wire_stop m;

	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (to && job_stop_for(h->job, n, &m))
			wire_put_stop(conn_out(&to->conn), WIRE_STOP,
				      WIRE_NOTICE, 0, &m);
	}
}

/* stack: lines for the end of END's why, or empty. */
static void hosted_job_deliver_end(struct hosted_job *h, struct slice stack)
{
	struct buf why = BUF_INIT(WIRE_TEXT_MAX + WIRE_STACK_MAX);
	uint64_t now = uv_now(h->server->loop);
	struct job_node *n = NULL;
	struct wire_end end;

	h->look.agent = NULL;
	uv_timer_stop(&h->look.timer);
	if (stack.len)
		buf_printf(&why, "%.*s\n%.*s", SLICE_FMT(job_end(h->job)->why),
			   SLICE_FMT(stack));
	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (!to || !job_end_for(h->job, n, &end))
			continue;
		if (why.len && !why.failed)
			end.why = SLICE(why.data, why.len);
		wire_put_end(conn_out(&to->conn), WIRE_END, WIRE_NOTICE, 0,
			     &end);
		if (end.verdict == WIRE_RESTART || end.verdict == WIRE_REGROUP)
			continue;
		if (h->server->has_parent && job_node_hosts(n))
			h->server->is_ending = 1;
		to->close_at = now + SERVER_CLOSE_MS;
		conn_due(&to->conn, now + 1);
	}
	hosted_job_end_round(h, job_end(h->job)->text.data);
	buf_release(&why);
}

void hosted_job_end_look(struct hosted_job *h)
{
	if (h->look.agent)
		hosted_job_deliver_end(h, SLICE_STR(""));
}

static void hosted_job_on_look_timer(uv_timer_t *t)
{
	struct hosted_job *h = t->data;

	hosted_job_end_look(h);
	conn_flush_all(&h->server->pool);
}

int hosted_job_take_stack(struct peer *agent, const struct wire_frame *f,
			  struct err *e)
{
	struct hosted_job *h = agent->hosted;
	struct wire_stack m;
	int rc = wire_get_stack(f, &m, e);

	if (rc < 0)
		return rc;
	if (m.text.len > WIRE_STACK_MAX)
		return err_set(e, ERR_PROTOCOL, "STACK: its text is too long");
	if (h && h->look.agent == agent && m.round == h->look.round &&
	    m.rank == h->look.rank)
		hosted_job_deliver_end(h, m.text);
	return 0;
}

/* The stack can only be read while the rank lives, so before END. 0: it is not
 * needed, or its agent is not here; END is sent at once. */
static int hosted_job_begin_look(struct hosted_job *h)
{
	const struct wire_end *end = job_end(h->job);
	const struct wire_look m = {
		.round = end->round,
		.rank = (uint32_t)end->rank,
	};
	struct peer *agent = !h->server->writer.mute &&
					     job_end_lacks_stack(h->job)
				     ? job_rank_owner(h->job, m.rank)
				     : NULL;

	if (!agent)
		return 0;
	wire_put_look(conn_out(&agent->conn), WIRE_LOOK, WIRE_NOTICE, 0, &m);
	h->look.agent = agent;
	h->look.round = m.round;
	h->look.rank = m.rank;
	uv_timer_start(&h->look.timer, hosted_job_on_look_timer, LOOK_MS, 0);
	return 1;
}

static void hosted_job_send_end(struct hosted_job *h)
{
	uv_timer_stop(&h->call_timer);
	h->since = uv_now(h->server->loop);
	h->server->counts.restarts += job_end(h->job)->verdict == WIRE_RESTART;
	h->server->counts.ends[server_round_end_of(job_end(h->job))]++;
	h->server->counts.changes += job_end(h->job)->verdict == WIRE_REGROUP;
	if (!h->server->writer.mute)
		SERVER_CALL_HOOK(h->server, on_round_end, h);
	if (!hosted_job_begin_look(h))
		hosted_job_deliver_end(h, SLICE_STR(""));
}

static void hosted_job_on_last_call(uv_timer_t *t)
{
	struct hosted_job *h = t->data;

	job_event_called(h);
	hosted_job_act(h);
	conn_flush_all(&h->server->pool);
}

void hosted_job_restart_last_call(struct hosted_job *h)
{
	uint32_t ms = job_call_ms(h->job);

	if (ms)
		uv_timer_start(&h->call_timer, hosted_job_on_last_call, ms, 0);
}

/* The agents report that the connection ended; the journal stays. */
static _Noreturn void hosted_job_end_without_memory(void)
{
	log_error("error: out of memory; this server exits, and its jobs end");
	exit(EX_OSERR);
}

void hosted_job_act(struct hosted_job *h)
{
	const struct job_action *a;

	limits_touch(h);
	hosted_job_count_gone(h);
	while ((a = job_next_action(h->job))) {
		switch (a->kind) {
		case JOB_TELL_STATE:
			hosted_job_send_state(h);
			SERVER_CALL_HOOK(h->server, on_wait, h->server);
			break;
		case JOB_TELL_START:
			hosted_job_start_round(h);
			break;
		case JOB_RANK_LEFT:
			/* otherwise a gather that lacks it would wait for
			 * ever */
			if (store_rank_left(h->store, a->rank, a->text) < 0)
				hosted_job_end_without_memory();
			store_answer_all(h->store);
			SERVER_CALL_HOOK(h->server, on_wait, h->server);
			break;
		case JOB_FATE_KNOWN:
			session_send_fate(a->fate, a->text);
			break;
		case JOB_TELL_STOP:
			hosted_job_send_stop(h);
			break;
		case JOB_TELL_END:
			hosted_job_send_end(h);
			break;
		case JOB_LAST_CALL:
			uv_timer_start(&h->call_timer, hosted_job_on_last_call,
				       a->rank, 0);
			break;
		case JOB_LAST_CALL_OFF:
			uv_timer_stop(&h->call_timer);
			break;
		case JOB_CANNOT_START:
			job_event_stopped(h, "the rendezvous server is out of "
					     "memory");
			break;
		}
	}
	if (job_lost_action(h->job))
		hosted_job_end_without_memory();
}

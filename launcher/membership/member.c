/* member.c: the actions of the membership table, and the lease. */
#include "launcher/membership/member.h"

#include <assert.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/membership/member_internal.h"

enum {
	REPORT_MS = 5000, /* between two lines of a node that waits */
	UNANSWERED_MAX = WIRE_PINGS - 1,
};

/* ---- the connection ---- */

const struct sock_addr *member_server_addr(const struct member *m)
{
	return &m->connection.addr;
}

char *member_server_text(const struct member *m, char *text)
{
	return sock_addr_text(&m->connection.addr, text);
}

const struct auth *member_auth(const struct member *m)
{
	return &m->connection.auth;
}

char *member_job_key(const struct member *m, char *text)
{
	return connection_job_key(&m->connection, text);
}

void member_fail(struct member *m, const struct err *why)
{
	const struct member_news news = {.why = why};

	member_handle(m, MEMBER_ON_FAIL, &news);
}

/* ---- waiting ---- */

static void member_on_report(uv_timer_t *t)
{
	struct member *m = t->data;

	join_progress_log(&m->progress, member_is_spare(m));
}

static void member_on_deadline(uv_timer_t *t)
{
	struct member *m = t->data;
	uint64_t more = join_progress_last_call_ms(&m->progress);
	struct err e = ERR_INIT;

	if (more) {
		uv_timer_start(&m->deadline, member_on_deadline, more, 0);
		return;
	}
	join_progress_timeout_error(&m->progress, &e);
	member_fail(m, &e);
}

/* Runs exactly while the membership has one. */
static void member_check_deadline(struct member *m)
{
	int runs = uv_is_active((uv_handle_t *)&m->deadline) != 0;

	if (membership_has_deadline(&m->membership) == runs)
		return;
	if (runs)
		uv_timer_stop(&m->deadline);
	else
		uv_timer_start(&m->deadline, member_on_deadline,
			       (uint64_t)(m->options->timeout_s * 1000) + 1, 0);
}

void member_join(struct member *m, uint64_t steps)
{
	m->steps = steps;
	join_progress_begin(&m->progress, m->has_started);
	uv_timer_start(&m->report, member_on_report, JOIN_PROGRESS_FIRST_MS,
		       REPORT_MS);
	member_handle(m, MEMBER_ON_JOIN, NULL);
}

/* ---- the lease ---- */

uint64_t member_ping_ms(const struct member *m)
{
	return (uint64_t)(m->options->heartbeat_s * 1000) / WIRE_PINGS;
}

/* By now the server counts this node as lost as well, and the others may go on
 * without it: it is looked for only where another server may be the job's. */
static void member_lose_silent_server(struct member *m)
{
	struct err e = ERR_INIT;
	char at[SOCK_TEXT_MAX];

	err_set(&e, ERR_REMOTE,
		"the rendezvous server at %s has been silent for %g s; is its "
		"host or the network down?",
		m->connection.role == ROLE_CANDIDATE
			? connection_server_text(&m->connection, at)
			: m->connection.where,
		m->options->heartbeat_s);
	m->reconnect.is_silent = 1;
	if (!connection_lose_silent(&m->connection, &e))
		member_fail(m, &e);
}

static void member_on_ping(uv_timer_t *t)
{
	struct member *m = t->data;

	/* counted in pings, not in time: a laptop that slept has lost nothing
	 */
	if (m->unanswered++ >= UNANSWERED_MAX) {
		member_lose_silent_server(m);
		return;
	}
	member_ping(m);
	reconnect_check_stall(&m->reconnect, m->unanswered, member_ping_ms(m));
}

/* ---- the actions ---- */

static void member_stop_timers(struct member *m)
{
	uv_timer_stop(&m->report);
	uv_timer_stop(&m->ping);
	uv_timer_stop(&m->deadline);
	reconnect_stop_timers(&m->reconnect);
}

static void member_do_connect(struct member *m, const struct member_news *n)
{
	connection_start(&m->connection);
}

static void member_do_join(struct member *m, const struct member_news *n)
{
	member_send_join(m);
}

/* With a server of our own our address is known before the greeting, and JOIN
 * needs not wait for it. */
static int member_joins_early(const struct member *m)
{
	return m->connection.role != ROLE_GUEST;
}

static void member_do_finish_join(struct member *m, const struct member_news *n)
{
	if (!member_joins_early(m))
		member_send_join(m);
}

static void member_do_retry(struct member *m, const struct member_news *n)
{
	uv_timer_stop(&m->ping);
	connection_retry(&m->connection, n->why);
}

static void member_do_be_spare(struct member *m, const struct member_news *n)
{
	join_progress_log_spare(&m->progress);
	m->events->on_spare(m);
}

static void member_do_start(struct member *m, const struct member_news *n)
{
	uv_timer_stop(&m->report);
	m->has_started = 1;
	m->round = n->start->round;
	m->events->on_start(m, n->start);
}

/* After the job's end the server waits for its nodes to hang up. */
static void member_do_end(struct member *m, const struct member_news *n)
{
	if (m->membership.state == MEMBER_CLOSED) {
		member_stop_timers(m);
		connection_hang_up(&m->connection);
	}
	m->events->on_end(m, n->end);
}

static void member_do_renew(struct member *m, const struct member_news *n)
{
	/* else the loss that people know of goes on */
	if (m->membership.state == MEMBER_RENEWING)
		reconnect_start_quietly(&m->reconnect);
	connection_renew(&m->connection, &m->reconnect.why);
}

static void member_do_reconnect(struct member *m, const struct member_news *n)
{
	reconnect_start(&m->reconnect, n->why,
			!membership_waits(&m->membership));
}

static void member_do_resume(struct member *m, const struct member_news *n)
{
	member_send_resume(m);
}

static void member_do_replay(struct member *m, const struct member_news *n)
{
	struct slice rest = outbox_unheard(&m->outbox, n->heard);

	reconnect_stop(&m->reconnect, n->was == MEMBER_RENEWING);
	if (rest.len)
		buf_put(member_out(m), rest.data, rest.len);
	member_flush(m);
}

static void member_do_rejoin(struct member *m, const struct member_news *n)
{
	reconnect_stop(&m->reconnect, n->was == MEMBER_RENEWING);
	member_send_join(m);
}

static void member_do_be_expelled(struct member *m, const struct member_news *n)
{
	reconnect_stop(&m->reconnect, n->was == MEMBER_RENEWING);
	m->events->on_end(m, n->end);
}

static void member_do_detach(struct member *m, const struct member_news *n)
{
	reconnect_give_up(&m->reconnect, n->why->text);
	if (membership_waits(&m->membership) || m->outbox.is_urgent ||
	    reconnect_is_left_behind(&m->reconnect)) {
		member_handle(m, MEMBER_ON_NEEDED, NULL);
		return;
	}
	log_warn("the rendezvous server is lost: %s; the workers continue "
		 "until one needs it",
		 m->reconnect.why.text);
	m->events->on_detached(m);
}

static void member_do_fail(struct member *m, const struct member_news *n)
{
	member_stop_timers(m);
	connection_hang_up(&m->connection);
	m->events->on_lost(m, n->why);
}

static void member_do_lose(struct member *m, const struct member_news *n)
{
	struct err e = ERR_INIT;

	reconnect_error(&m->reconnect, &e);
	member_do_fail(m, &(struct member_news){.why = &e});
}

static void (*const member_acts[])(struct member *m,
				   const struct member_news *news) = {
	[MEMBER_DO_NOTHING] = NULL,
	[MEMBER_DO_CONNECT] = member_do_connect,
	[MEMBER_DO_FINISH_JOIN] = member_do_finish_join,
	[MEMBER_DO_JOIN] = member_do_join,
	[MEMBER_DO_RETRY] = member_do_retry,
	[MEMBER_DO_BE_SPARE] = member_do_be_spare,
	[MEMBER_DO_START] = member_do_start,
	[MEMBER_DO_END] = member_do_end,
	[MEMBER_DO_RENEW] = member_do_renew,
	[MEMBER_DO_RECONNECT] = member_do_reconnect,
	[MEMBER_DO_RESUME] = member_do_resume,
	[MEMBER_DO_REPLAY] = member_do_replay,
	[MEMBER_DO_REJOIN] = member_do_rejoin,
	[MEMBER_DO_BE_EXPELLED] = member_do_be_expelled,
	[MEMBER_DO_DETACH] = member_do_detach,
	[MEMBER_DO_LOSE] = member_do_lose,
	[MEMBER_DO_FAIL] = member_do_fail,
};
static_assert(sizeof(member_acts) / sizeof(*member_acts) == MEMBER_ACTS,
	      "what is done for each");

void member_handle(struct member *m, enum membership_event ev,
		   const struct member_news *news)
{
	struct member_news n = news ? *news : (struct member_news){.why = NULL};
	const struct membership_edge *edge;

	n.was = m->membership.state;
	edge = membership_step(&m->membership, ev);
	log_debug("membership: %s -> %s, %s%s%s%s",
		  membership_state_names[n.was],
		  membership_state_names[m->membership.state],
		  membership_event_names[ev],
		  edge->is_known ? "" : " (ignored)", n.why ? ": " : "",
		  n.why ? n.why->text : "");
	member_check_deadline(m);
	if (edge->is_known && member_acts[edge->act])
		member_acts[edge->act](m, &n);
}

/* ---- the connection's events ---- */

static void member_on_calling(struct connection *c)
{
	struct member *m = c->owner;

	m->id = 1; /* HELLO's */
	if (m->membership.state == MEMBER_CONNECTING && member_joins_early(m))
		member_send_join(m);
}

static void member_on_greeted(struct connection *c)
{
	struct member *m = c->owner;

	m->unanswered = 0;
	reconnect_on_gone(&m->reconnect);
	uv_timer_start(&m->ping, member_on_ping, member_ping_ms(m),
		       member_ping_ms(m));
	member_handle(m, MEMBER_ON_GREETED, NULL);
}

static void member_on_frame(struct connection *c, const struct wire_frame *f)
{
	member_handle_frame(c->owner, f);
}

static int member_on_away(struct connection *c, const struct err *why,
			  int hopeless)
{
	struct member *m = c->owner;
	struct err e = ERR_INIT;
	const struct member_news lost = {.why = why}, given_up = {.why = &e};

	uv_timer_stop(&m->ping);
	reconnect_on_gone(&m->reconnect);
	if (!m->options->reconnect_ms || m->membership.state == MEMBER_CLOSED)
		return 0;
	member_handle(m, MEMBER_ON_AWAY, &lost);
	if (hopeless && m->membership.state == MEMBER_RECONNECTING) {
		m->reconnect.why = *why; /* more than "connection lost" */
		err_set(&e, ERR_REMOTE, "it is not restarted");
		member_handle(m, MEMBER_ON_DETACH, &given_up);
	}
	return 1;
}

static void member_on_connection_lost(struct connection *c,
				      const struct err *why)
{
	member_fail(c->owner, why);
}

static const struct connection_events connection_events = {
	.on_calling = member_on_calling,
	.on_greeted = member_on_greeted,
	.on_frame = member_on_frame,
	.on_away = member_on_away,
	.on_lost = member_on_connection_lost,
};

/* ---- a loss's events ---- */

static void member_on_timeout(void *owner, const struct err *why)
{
	const struct member_news news = {.why = why};

	member_handle(owner, MEMBER_ON_DETACH, &news);
}

static void member_on_reachable(void *owner)
{
	member_handle(owner, MEMBER_ON_STALLED, NULL);
}

static const struct reconnect_events reconnect_events = {
	.on_timeout = member_on_timeout,
	.on_reachable = member_on_reachable,
};

/* ---- from start to end ---- */

int member_init(struct member *m, uv_loop_t *loop,
		const struct rdzv_options *options,
		const char *node_id, const struct member_events *events,
		struct err *e)
{
	int rc;

	*m = (struct member){.events = events,
			     .options = options,
			     .node_id = node_id,
			     .reserved_fd = -1};
	sock_host_name(m->host);
	rc = connection_init(&m->connection, loop, options, m->host,
			     &connection_events, e);
	if (rc < 0)
		return rc;
	m->connection.owner = m;
	m->progress = (struct join_progress){.options = options,
					     .connection = &m->connection};
	node_dumps_init(&m->pages, loop, member_send_page, m);
	outbox_init(&m->outbox);
	reconnect_init(&m->reconnect, loop, &m->connection, &reconnect_events,
		       m);
	vouch_init(&m->vouch);
	uv_timer_init(loop, &m->report);
	uv_timer_init(loop, &m->ping);
	uv_timer_init(loop, &m->deadline);
	m->report.data = m->ping.data = m->deadline.data = m;
	return 0;
}

void member_close(struct member *m)
{
	member_handle(m, MEMBER_ON_CLOSE, NULL);
	uv_close((uv_handle_t *)&m->report, NULL);
	uv_close((uv_handle_t *)&m->ping, NULL);
	uv_close((uv_handle_t *)&m->deadline, NULL);
	reconnect_close(&m->reconnect);
	outbox_release(&m->outbox);
	connection_close(&m->connection);
	node_dumps_close(&m->pages);
	vouch_release(&m->vouch);
	if (m->reserved_fd >= 0)
		close(m->reserved_fd);
	m->reserved_fd = -1;
}

/* ---- what the owner asks ---- */

int member_is_detached(const struct member *m)
{
	return m->membership.state == MEMBER_DETACHED;
}

int member_is_spare(const struct member *m)
{
	return m->membership.place == MEMBER_SPARE;
}

int member_has_started(const struct member *m)
{
	return m->has_started;
}

int member_reaped(struct member *m, pid_t pid, int status)
{
	return connection_reaped(&m->connection, pid, status) ||
	       node_dumps_reaped(&m->pages, pid, status);
}

pid_t member_server_pid(const struct member *m)
{
	return m->connection.supervisor.server.pid;
}

int member_server_stands_by(const struct member *m)
{
	return member_server_pid(m) && m->connection.role == ROLE_CANDIDATE &&
	       !connection_is_own_candidate(&m->connection) &&
	       !server_process_is_stopped(&m->connection.supervisor.server);
}

void member_leave_server(struct member *m)
{
	m->connection.supervisor.server.pid = 0;
}

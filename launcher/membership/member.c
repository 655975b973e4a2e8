/* member.c: joining, waiting, and the lease. */
#include "launcher/membership/member.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/config/exit_code.h"
#include "launcher/config/remote_node.h"
#include "launcher/membership/join_progress.h"

enum {
	SPEAK_FIRST_MS = 1000,
	SPEAK_MS = 5000,
	UNHEARD_MAX = WIRE_PINGS - 1,
	MUCH_BYTES = 64 << 10,
};

static void stop_timers(struct member *m)
{
	uv_timer_stop(&m->speak);
	uv_timer_stop(&m->ping);
	uv_timer_stop(&m->deadline);
	uv_timer_stop(&m->reconnect.timer);
	probe_stop(&m->reconnect.probe);
}

void member_give_up(struct member *m, const struct err *why)
{
	if (m->over)
		return;
	m->over = 1;
	stop_timers(m);
	connection_hang_up(&m->connection);
	m->events->on_lost(m, why);
}

static int is_in(const struct member *m)
{
	return m->connection.phase == CONNECTION_IN;
}

static struct buf *out(struct member *m)
{
	return link_out(&m->connection.link);
}

static void flush(struct member *m)
{
	link_flush(&m->connection.link);
}

const struct sock_addr *member_server_addr(const struct member *m)
{
	return &m->connection.addr;
}

char *member_server_text(const struct member *m, char *text)
{
	return sock_addr_text(&m->connection.addr, text);
}

char *member_job_key(const struct member *m, char *text)
{
	return connection_job_key(&m->connection, text);
}

/* ---- waiting ---- */

static void on_speak(uv_timer_t *t)
{
	join_progress_log(t->data);
}

static void on_deadline(uv_timer_t *t)
{
	struct member *m = t->data;
	const struct config *c = m->config;
	struct err e = ERR_INIT;
	char nodes[64];

	if (is_in(m))
		err_set(&e, ERR_TIMEOUT,
			"gave up after %g s: only %u of %s came to %s "
			"(job '%s')%s%s; start them all within --rdzv-timeout",
			c->rdzv_timeout_s, m->joined,
			join_progress_nodes(m, nodes, sizeof(nodes)),
			m->connection.where, c->job,
			m->awaited[0] ? "; waited for " : "", m->awaited);
	else if (c->etcd.members)
		err_set(&e, ERR_TIMEOUT,
			"gave up after %g s: nobody became the server of job "
			"'%s' at %s%s%s; look at etcd, or raise "
			"--rdzv-timeout",
			c->rdzv_timeout_s, c->job, m->connection.where,
			m->connection.last.code ? ": " : "",
			m->connection.last.text);
	else
		err_set(&e, ERR_TIMEOUT,
			"gave up after %g s: no rendezvous at %s%s%s; start "
			"ddprdzv or node 0's ddprun there, or raise "
			"--rdzv-timeout",
			c->rdzv_timeout_s, m->connection.where,
			m->connection.last.code ? ": " : "",
			m->connection.last.text);
	member_give_up(m, &e);
}

static void start_deadline(struct member *m)
{
	uv_timer_start(&m->deadline, on_deadline,
		       (uint64_t)(m->config->rdzv_timeout_s * 1000) + 1, 0);
}

static void start_waiting(struct member *m)
{
	m->began_ms = clock_ms();
	m->joined = m->spares = 0;
	m->spare = 0;
	m->starts_ms = 0;
	m->awaited[0] = '\0';
	uv_timer_start(&m->speak, on_speak, SPEAK_FIRST_MS, SPEAK_MS);
	start_deadline(m);
}

static void stop_waiting(struct member *m)
{
	m->waiting = 0;
	uv_timer_stop(&m->speak);
	uv_timer_stop(&m->deadline);
}

/* ---- the lease ---- */

uint64_t member_ping_ms(const struct member *m)
{
	return (uint64_t)(m->config->heartbeat_s * 1000) / WIRE_PINGS;
}

void member_ping(struct member *m)
{
	if (!is_in(m))
		return;
	wire_put_empty(out(m), WIRE_PING, WIRE_REQUEST, ++m->id);
	flush(m);
}

static void on_ping(uv_timer_t *t)
{
	struct member *m = t->data;
	struct err e = ERR_INIT;
	char at[SOCK_TEXT_MAX];

	/* counted in pings, not in time: a laptop that slept is not lost. It is
	 * not looked for, unless another may be the server: by now it has
	 * counted this node as lost, too, and the others may go on without
	 * it */
	if (m->unheard++ >= UNHEARD_MAX) {
		err_set(&e, ERR_REMOTE,
			"the rendezvous server at %s is silent for %g s; is its"
			" host or the network down?",
			m->connection.is_candidate
				? connection_server_text(&m->connection, at)
				: m->connection.where,
			m->config->heartbeat_s);
		m->reconnect.silent = 1;
		if (!connection_on_silence(&m->connection, &e))
			member_give_up(m, &e);
		return;
	}
	member_ping(m);
	reconnect_unheard(m);
}

/* ---- joining ---- */

static int reserve_port(struct member *m, uint16_t *port, struct err *e)
{
	/* a new one each round: what the last one left in the old port's
	 * connections is not the next one's business; while that is held, the
	 * kernel does not give it again */
	int old = m->reserved_fd;

	m->reserved_fd = sock_reserve_port(port, e);
	if (old >= 0)
		close(old);
	return m->reserved_fd < 0 ? m->reserved_fd : 0;
}

/* A time that the wire has no room for is as good as for ever. */
static uint32_t wire_ms(double seconds)
{
	double ms = seconds * 1000;

	return ms < (double)UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Over ssh the hosts beyond MAX wait until one of the others is missing. */
static int32_t rank_asked_for(const struct config *c)
{
	return remote_node_number() >= c->max_nodes ? WIRE_RANK_OF_SPARE
						    : (int32_t)c->node_rank;
}

void member_send_join(struct member *m)
{
	const struct config *c = m->config;
	struct wire_join join = {
		.hosts_server = (uint8_t)m->connection.hosts,
		.node_rank = rank_asked_for(c),
		.min_nodes = c->min_nodes,
		.max_nodes = c->max_nodes,
		.role = SLICE_STR(c->role),
		.last_call_ms = wire_ms(c->last_call_s),
		.lease_ms = wire_ms(c->heartbeat_s),
		.nproc = c->nproc,
		.max_restarts = (uint32_t)c->max_restarts,
		.agent_store = (uint8_t)c->agent_store,
		.store_open = (uint8_t)c->store_open,
	};
	char addr[SOCK_TEXT_MAX];
	struct err e = ERR_INIT;

	if (reserve_port(m, &join.master_port, &e) < 0) {
		member_give_up(m, &e);
		return;
	}
	connection_own_addr(&m->connection, m->addr_text);
	join.node_id = SLICE_STR(m->node_id);
	join.host = SLICE_STR(m->host);
	memcpy(addr, m->addr_text, sizeof(addr));
	join.addr = SLICE_STR(sock_host_unscope(addr));
	if (!c->private_endpoint) /* else nobody is elsewhere */
		join.addrs = vouch_addrs(&m->vouch);
	m->join_sent = 1;
	reconnect_begin(m);
	wire_put_join(out(m), WIRE_JOIN, WIRE_REQUEST, ++m->id, &join);
	flush(m);
}

void member_join(struct member *m)
{
	m->waiting = 1;
	m->join_sent = 0;
	start_waiting(m);
	if (reconnect_needs(m))
		return;
	if (is_in(m) && !m->reconnect.away)
		member_send_join(m);
	else if (!m->reconnect.away)
		connection_start(&m->connection);
}

/* ---- what the server says ---- */

static void take_error(struct member *m, const struct wire_frame *f)
{
	struct wire_error x;
	struct err e = ERR_INIT;

	if (wire_get_error(f, &x, &e) < 0) {
		member_give_up(m, &e);
		return;
	}
	/* the last job's server, which waits for its node 0 to end */
	if (x.code == ERR_ABORTED &&
	    (m->reconnect.away || (!m->started && m->waiting))) {
		err_set(&e, ERR_ABORTED, "%.*s", SLICE_FMT(x.text));
		uv_timer_stop(&m->ping);
		connection_retry(&m->connection, &e);
		return;
	}
	err_set(&e, f->id ? exit_code_refusal(x.code) : ERR_PROTOCOL, "%.*s",
		SLICE_FMT(x.text));
	member_give_up(m, &e);
}

static void take_state(struct member *m, const struct wire_state *state)
{
	int was_spare = m->spare;

	m->joined = state->joined;
	m->spares = state->spares;
	m->spare = state->spare;
	m->starts_ms =
		state->last_call_ms ? clock_ms() + state->last_call_ms : 0;
	log_debug("%u of %u nodes are there", m->joined, m->config->max_nodes);
	/* a job may run for weeks before it needs its spare */
	if (m->spare && !was_spare) {
		uv_timer_stop(&m->deadline);
		join_progress_log_spare(m);
		m->events->on_spare(m);
	} else if (!m->spare && was_spare) {
		start_deadline(m);
	} else if (clock_ms() - m->began_ms >= SPEAK_FIRST_MS) {
		/* who comes at once is not worth a line */
		join_progress_log(m);
	}
}

/* It is a client of PyTorch's store here. */
static void name_client(struct member *m, const struct wire_waiting *x,
			char *text, size_t size)
{
	uint64_t inode = vouch_inode(&m->vouch, x);
	uint32_t rank;
	pid_t pid;

	if (inode && m->events->find_holder(m, inode, &rank, &pid))
		snprintf(text, size, " (rank %u, pid %d, in PyTorch's store)",
			 rank, (int)pid);
	else
		snprintf(text, size,
			 " (a worker of this node, in PyTorch's "
			 "store)");
}

static void take_waiting(struct member *m, const struct wire_waiting *x)
{
	unsigned long long s = (x->waited_ms + 500) / 1000;
	char client[96] = "";

	if (x->peer.len)
		name_client(m, x, client, sizeof(client));
	if (!m->waiting && m->started)
		log_info("waiting %llu s for %.*s%s (job '%s')", s,
			 SLICE_FMT(x->text), client, m->config->job);
	if (!m->waiting || m->spare || m->starts_ms)
		return;
	snprintf(m->awaited, sizeof(m->awaited), "%.*s", SLICE_FMT(x->text));
	join_progress_log_awaited(m, s);
	m->events->on_waiting(m);
}

static int take_notice(struct member *m, const struct wire_frame *f,
		       struct err *e)
{
	struct wire_state state;
	struct wire_start start;
	struct wire_end end;
	struct wire_waiting waiting;
	struct wire_look look;
	struct wire_stop stop;
	int rc = 0;

	switch (f->type) {
	case WIRE_STATE:
		rc = wire_get_state(f, &state, e);
		if (rc < 0)
			return rc;
		take_state(m, &state);
		return 0;
	case WIRE_START:
		rc = wire_get_start(f, &start, e);
		if (rc < 0)
			return rc;
		stop_waiting(m);
		m->started = 1;
		m->spare = 0;
		m->reconnect.began = 1;
		m->reconnect.ended = 0;
		m->reconnect.round = start.round;
		m->events->on_start(m, &start);
		return 0;
	case WIRE_END:
		rc = wire_get_end(f, &end, e);
		if (rc < 0)
			return rc;
		if (end.verdict != WIRE_RESTART &&
		    end.verdict != WIRE_REGROUP) {
			/* the server waits for us to go */
			m->over = 1;
			stop_timers(m);
			connection_hang_up(&m->connection);
		}
		if (end.round == m->reconnect.round)
			m->reconnect.ended = 1;
		m->events->on_end(m, &end);
		return 0;
	case WIRE_STOP:
		rc = wire_get_stop(f, &stop, e);
		if (rc == 0)
			m->events->on_stop(m, &stop);
		return rc;
	case WIRE_VOUCH:
		rc = vouch_answer(&m->vouch, f, out(m), e);
		flush(m);
		return rc;
	case WIRE_WAITING:
		rc = wire_get_waiting(f, &waiting, e);
		if (rc == 0)
			take_waiting(m, &waiting);
		return rc;
	case WIRE_LOOK:
		rc = wire_get_look(f, &look, e);
		if (rc == 0)
			pages_start(&m->pages, &look);
		return rc;
	default:
		return 0; /* a later server may know more than we do */
	}
}

static void on_page(void *owner, const struct wire_page *page)
{
	struct member *m = owner;

	if (!is_in(m))
		return;
	wire_put_page(out(m), WIRE_PAGE, WIRE_NOTICE, 0, page);
	flush(m);
}

static void on_frame(struct connection *c, const struct wire_frame *f)
{
	struct member *m = c->owner;
	struct err e = ERR_INIT;

	m->unheard = 0;
	probe_stop(&m->reconnect.probe);
	if (reconnect_take(m, f))
		return;
	if (f->kind == WIRE_ERROR_REPLY)
		take_error(m, f);
	else if (f->kind == WIRE_NOTICE && take_notice(m, f, &e) < 0)
		member_give_up(m, &e);
}

static void on_calling(struct connection *c)
{
	struct member *m = c->owner;

	m->id = 1; /* HELLO's */
	m->join_sent = 0;
	/* our address is known already: no need to wait for the greeting */
	if (m->waiting && (c->hosts || c->is_candidate) && !m->reconnect.away)
		member_send_join(m);
}

static void on_greeted(struct connection *c)
{
	struct member *m = c->owner;

	m->unheard = 0;
	uv_timer_start(&m->ping, on_ping, member_ping_ms(m), member_ping_ms(m));
	if (!reconnect_greeted(m) && m->waiting && !m->join_sent)
		member_send_join(m);
}

static int on_connection_away(struct connection *c, const struct err *why,
			      int hopeless)
{
	struct member *m = c->owner;

	uv_timer_stop(&m->ping);
	probe_stop(&m->reconnect.probe);
	return reconnect_lost(m, why, hopeless);
}

static void on_connection_lost(struct connection *c, const struct err *why)
{
	member_give_up(c->owner, why);
}

static const struct connection_events connection_events = {
	.on_calling = on_calling,
	.on_greeted = on_greeted,
	.on_frame = on_frame,
	.on_away = on_connection_away,
	.on_lost = on_connection_lost,
};

/* ---- from start to end ---- */

int member_init(struct member *m, uv_loop_t *loop, const struct config *config,
		const char *node_id, const struct member_events *events,
		struct err *e)
{
	int rc;

	*m = (struct member){.events = events,
			     .config = config,
			     .node_id = node_id,
			     .reserved_fd = -1};
	sock_host_name(m->host);
	rc = connection_init(&m->connection, loop, config, m->host,
			     &connection_events, e);
	if (rc < 0)
		return rc;
	m->connection.owner = m;
	pages_init(&m->pages, loop, on_page, m);
	reconnect_init(m, loop);
	vouch_init(&m->vouch);
	uv_timer_init(loop, &m->speak);
	uv_timer_init(loop, &m->ping);
	uv_timer_init(loop, &m->deadline);
	m->speak.data = m->ping.data = m->deadline.data = m;
	return 0;
}

int member_is_adrift(const struct member *m)
{
	return m->reconnect.adrift;
}

void member_exited(struct member *m, const struct wire_exited *x)
{
	size_t from = m->reconnect.said.len;

	wire_put_exited(&m->reconnect.said, WIRE_EXITED, WIRE_NOTICE, 0, x);
	reconnect_say(m, from, x->code || x->signal);
	if (is_in(m) && out(m)->len > MUCH_BYTES)
		flush(m);
}

void member_flush(struct member *m)
{
	if (is_in(m))
		flush(m);
}

void member_failed(struct member *m, uint32_t round, int exit_code,
		   const char *text)
{
	const struct wire_failed x = {.round = round,
				      .exit_code = exit_code,
				      .text = SLICE_STR(text)};
	size_t from = m->reconnect.said.len;

	wire_put_failed(&m->reconnect.said, WIRE_FAILED, WIRE_NOTICE, 0, &x);
	reconnect_say(m, from, 1);
	member_flush(m);
}

void member_leave(struct member *m, int signal, const char *text)
{
	const struct wire_leave x = {.signal = signal, .text = SLICE_STR(text)};

	if (!is_in(m))
		return;
	wire_put_leave(out(m), WIRE_LEAVE, WIRE_NOTICE, 0, &x);
	flush(m);
}

void member_stop(struct member *m, const struct wire_stop *stop)
{
	size_t from = m->reconnect.said.len;

	wire_put_stop(&m->reconnect.said, WIRE_STOP, WIRE_NOTICE, 0, stop);
	reconnect_say(m, from, 1);
	member_flush(m);
}

void member_close(struct member *m)
{
	m->over = 1;
	uv_close((uv_handle_t *)&m->speak, NULL);
	uv_close((uv_handle_t *)&m->ping, NULL);
	uv_close((uv_handle_t *)&m->deadline, NULL);
	reconnect_close(m);
	connection_close(&m->connection);
	pages_close(&m->pages);
	vouch_release(&m->vouch);
	if (m->reserved_fd >= 0)
		close(m->reserved_fd);
	m->reserved_fd = -1;
}

int member_reaped(struct member *m, pid_t pid, int status)
{
	return connection_reaped(&m->connection, pid, status) ||
	       pages_reaped(&m->pages, pid, status);
}

pid_t member_server_pid(const struct member *m)
{
	return m->connection.supervisor.server.pid;
}

int member_server_stands_by(const struct member *m)
{
	return member_server_pid(m) && m->connection.is_candidate &&
	       !connection_is_own_candidate(&m->connection) &&
	       !server_process_is_stopped(&m->connection.supervisor.server);
}

void member_leave_server(struct member *m)
{
	m->connection.supervisor.server.pid = 0;
}

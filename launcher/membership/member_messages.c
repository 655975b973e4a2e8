/* member_messages.c: the messages between a member and the server. Sends JOIN,
 * RESUME, PING and the notices; the outbox keeps each notice that must not be
 * lost. Turns the server's frames into events of the membership table. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/failure/exit_code.h"
#include "launcher/membership/member_internal.h"

enum { MUCH_BYTES = 64 << 10 };

/* Whether the server has greeted us. */
static int member_is_connected(const struct member *m)
{
	return m->connection.phase == CONNECTION_IN;
}

struct buf *member_out(struct member *m)
{
	return async_client_out(&m->connection.link);
}

void member_flush(struct member *m)
{
	if (member_is_connected(m))
		async_client_flush(&m->connection.link);
}

/* ---- JOIN and RESUME ---- */

/* Each round gets another port: connections that the last round left in its
 * port must not disturb the next. The kernel does not give the old one again
 * while it is held. */
static int member_reserve_port(struct member *m, uint16_t *port, struct err *e)
{
	int old = m->reserved_fd;

	m->reserved_fd = sock_reserve_port(port, e);
	if (old >= 0)
		close(old);
	return m->reserved_fd < 0 ? m->reserved_fd : 0;
}

/* A time that the wire has no room for is as good as for ever. */
static uint32_t member_wire_ms(double seconds)
{
	double ms = seconds * 1000;

	return ms < (double)UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

/* Over ssh the hosts beyond MAX wait until one of the others is missing. */
static int32_t member_wanted_rank(const struct rdzv_options *c)
{
	return c->env->host_index >= c->max_nodes ? WIRE_RANK_OF_SPARE
						    : (int32_t)c->node_rank;
}

void member_send_join(struct member *m)
{
	const struct rdzv_options *c = m->options;
	struct wire_join join = {
		.hosts_server = m->connection.role == ROLE_HOST,
		.node_rank = member_wanted_rank(c),
		.min_nodes = c->min_nodes,
		.max_nodes = c->max_nodes,
		.role = SLICE_STR(c->role),
		.last_call_ms = member_wire_ms(c->last_call_s),
		.lease_ms = member_wire_ms(c->heartbeat_s),
		.nproc = c->nproc,
		.max_restarts = (uint32_t)c->max_restarts,
		.max_no_progress = (uint32_t)c->max_no_progress,
		.swap_after = (uint32_t)c->swap_after,
		.backoff_ms = member_wire_ms(c->backoff_s),
		.agent_store = (uint8_t)c->agent_store,
		.store_open = (uint8_t)c->store_open,
		.steps = m->steps, .alike = m->alike,
	};
	char addr[SOCK_TEXT_MAX];
	struct err e = ERR_INIT;

	if (member_reserve_port(m, &join.master_port, &e) < 0) {
		member_fail(m, &e);
		return;
	}
	connection_own_addr(&m->connection, m->addr_text);
	join.node_id = SLICE_STR(m->node_id);
	join.host = SLICE_STR(m->host);
	memcpy(addr, m->addr_text, sizeof(addr));
	join.addr = SLICE_STR(sock_host_unscope(addr));
	if (!c->private_endpoint) /* else nobody is elsewhere */
		join.addrs = vouch_addrs(&m->vouch);
	outbox_clear(&m->outbox);
	wire_put_join(member_out(m), WIRE_JOIN, WIRE_REQUEST, ++m->id, &join);
	async_client_flush(&m->connection.link);
}

void member_send_resume(struct member *m)
{
	struct wire_resume x = {
		.node_id = SLICE_STR(m->node_id),
		.round = m->round,
		.began = (uint8_t)m->has_started,
		.ended =
			m->has_started && m->membership.place != MEMBER_RUNNING,
	};

	if (!m->options->private_endpoint)
		x.addrs = vouch_addrs(&m->vouch);
	m->resume_id = ++m->id;
	wire_put_resume(member_out(m), WIRE_RESUME, WIRE_REQUEST, m->resume_id,
			&x);
	member_flush(m);
}

/* ---- notices ---- */

/* A notice was added to the outbox, or could not be: rc and e. */
static void member_send_notice(struct member *m, int rc, struct slice frame,
			       int is_urgent, const struct err *e)
{
	if (rc < 0) {
		member_fail(m, e);
		return;
	}
	if (membership_is_heard(&m->membership))
		buf_put(member_out(m), frame.data, frame.len);
	if (is_urgent && member_is_detached(m))
		member_handle(m, MEMBER_ON_NEEDED, NULL);
}

void member_exited(struct member *m, const struct wire_exited *x)
{
	struct err e = ERR_INIT;
	struct slice frame = {NULL, 0};
	int rc = outbox_add_exited(&m->outbox, x, &frame, &e);

	member_send_notice(m, rc, frame, x->code || x->signal, &e);
	if (member_is_connected(m) && member_out(m)->len > MUCH_BYTES)
		member_flush(m);
}

void member_failed(struct member *m, uint32_t round, int exit_code,
		   const char *text)
{
	const struct wire_failed x = {.round = round,
				      .exit_code = exit_code,
				      .text = SLICE_STR(text)};
	struct err e = ERR_INIT;
	struct slice frame = {NULL, 0};
	int rc = outbox_add_failed(&m->outbox, &x, &frame, &e);

	member_send_notice(m, rc, frame, 1, &e);
	member_flush(m);
}

void member_stop(struct member *m, const struct wire_stop *stop)
{
	struct err e = ERR_INIT;
	struct slice frame = {NULL, 0};
	int rc = outbox_add_stop(&m->outbox, stop, &frame, &e);

	member_send_notice(m, rc, frame, 1, &e);
	member_flush(m);
}

void member_leave(struct member *m, int signal, const char *text)
{
	const struct wire_leave x = {.signal = signal, .text = SLICE_STR(text)};

	if (!member_is_connected(m))
		return;
	wire_put_leave(member_out(m), WIRE_LEAVE, WIRE_NOTICE, 0, &x);
	member_flush(m);
}

void member_send_page(void *member, const struct wire_dump_reply *page)
{
	struct member *m = member;

	if (!member_is_connected(m))
		return;
	wire_put_dump_reply(member_out(m), WIRE_DUMP_REPLY, WIRE_NOTICE, 0,
			    page);
	member_flush(m);
}

void member_progress(struct member *m, const struct wire_progress *progress)
{
	if (!member_is_connected(m) || !membership_is_heard(&m->membership))
		return;
	wire_put_progress(member_out(m), WIRE_PROGRESS, WIRE_NOTICE, 0,
			  progress);
	member_flush(m);
}

void member_gpus(struct member *m, const struct wire_gpus *gpus)
{
	if (!member_is_connected(m) || !membership_is_heard(&m->membership))
		return;
	wire_put_gpus(member_out(m), WIRE_GPUS, WIRE_NOTICE, 0, gpus);
	member_flush(m);
}

void member_gpu_news(struct member *m, const struct wire_gpu_news *news)
{
	if (!member_is_connected(m) || !membership_is_heard(&m->membership))
		return;
	wire_put_gpu_news(member_out(m), WIRE_GPU_NEWS, WIRE_NOTICE, 0, news);
	member_flush(m);
}

void member_role_news(struct member *m, const struct wire_role_news *news)
{
	if (!member_is_connected(m) || !membership_is_heard(&m->membership))
		return;
	wire_put_role_news(member_out(m), WIRE_ROLE_NEWS, WIRE_NOTICE, 0, news);
	member_flush(m);
}

void member_stack(struct member *m, const struct wire_stack *stack)
{
	if (!member_is_connected(m) || !membership_is_heard(&m->membership))
		return;
	wire_put_stack(member_out(m), WIRE_STACK, WIRE_NOTICE, 0, stack);
	member_flush(m);
}

void member_ping(struct member *m)
{
	if (!member_is_connected(m))
		return;
	wire_put_empty(member_out(m), WIRE_PING, WIRE_REQUEST, ++m->id);
	member_flush(m);
}

/* ---- what the server says ---- */

/* ---- what a server that was lost knows of us ---- */

static void member_on_known(struct member *m, const struct wire_resumed *x)
{
	const struct member_news news = {.heard = x->heard};

	member_handle(m,
		      membership_waits(&m->membership) && !x->joined
			      ? MEMBER_ON_UNJOINED
			      : MEMBER_ON_RESUMED,
		      &news);
}

/* The others go on without this node, which may join them: as after a round
 * that ended. */
static void member_on_counted_lost(struct member *m,
				   const struct wire_resumed *x)
{
	const struct wire_end end = {.round = m->round,
				     .verdict = WIRE_REGROUP,
				     .text = x->text,
				     .rank = -1};
	const struct member_news news = {.end = &end, .heard = UINT32_MAX};

	if (membership_waits(&m->membership))
		member_handle(m, MEMBER_ON_UNJOINED, &news);
	else if (m->membership.place == MEMBER_EXPELLED) /* the owner knows */
		member_handle(m, MEMBER_ON_RESUMED, &news);
	else
		member_handle(m, MEMBER_ON_EXPELLED, &news);
}

/* The server has lost more than that this node waits. */
static void member_on_forgotten(struct member *m, const struct wire_resumed *x)
{
	struct err e = ERR_INIT;
	const struct member_news news = {.why = &e};
	const char *left = "", *right = "";

	connection_stop_search(&m->connection);
	uv_timer_stop(&m->ping); /* nobody is left to answer */
	if (x->known == WIRE_OVER) {
		m->outbox.is_urgent = 1;
	} else if (m->connection.role == ROLE_CANDIDATE) {
		/* the others go on without this node */
		left = "and the next one no longer knows this node (";
		right = ")";
		m->reconnect.is_silent = 1;
	} else {
		left = "it came back without its state (";
		right = "); --journal FILE keeps it";
	}
	err_set(&e, ERR_REMOTE, "%s%.*s%s", left, SLICE_FMT(x->text), right);
	member_handle(m, MEMBER_ON_FORGOTTEN, &news);
}

static void member_on_resumed(struct member *m, const struct wire_frame *f)
{
	struct wire_resumed x;
	struct err e = ERR_INIT;

	if (wire_get_resumed(f, &x, &e) < 0)
		member_fail(m, &e);
	else if (x.known == WIRE_KNOWN)
		member_on_known(m, &x);
	else if (x.known == WIRE_LOST && m->has_started &&
		 m->connection.role != ROLE_CANDIDATE)
		member_on_counted_lost(m, &x);
	else if (!m->has_started)
		member_handle(m, MEMBER_ON_UNJOINED, NULL);
	else
		member_on_forgotten(m, &x);
}

static int member_is_resume_reply(const struct member *m,
				  const struct wire_frame *f)
{
	return f->type == WIRE_RESUME && f->kind == WIRE_REPLY &&
	       f->id == m->resume_id && membership_is_away(&m->membership);
}

/* ---- notices ---- */

static void member_on_error(struct member *m, const struct wire_frame *f)
{
	const struct membership *ms = &m->membership;
	struct wire_error x;
	struct err e = ERR_INIT;
	const struct member_news news = {.why = &e};

	if (wire_get_error(f, &x, &e) < 0) {
		member_fail(m, &e);
		return;
	}
	/* the last job's server, which waits for its node 0 to end */
	if (x.code == ERR_ABORTED &&
	    (membership_is_away(ms) ||
	     (!m->has_started && membership_waits(ms)))) {
		err_set(&e, ERR_ABORTED, "%.*s", SLICE_FMT(x.text));
		member_handle(m, MEMBER_ON_TURNED_AWAY, &news);
		return;
	}
	err_set(&e, f->id ? exit_code_refusal(x.code) : ERR_PROTOCOL, "%.*s",
		SLICE_FMT(x.text));
	member_fail(m, &e);
}

static void member_on_state(struct member *m, const struct wire_state *state)
{
	enum membership_state was = m->membership.state;

	join_progress_set_state(&m->progress, state);
	if (state->spare && was != MEMBER_SPARE)
		member_handle(m, MEMBER_ON_SPARE, NULL);
	else if (!state->spare && was == MEMBER_SPARE)
		member_handle(m, MEMBER_ON_COUNTED, NULL);
	else if (join_progress_is_due(&m->progress))
		join_progress_log(&m->progress, was == MEMBER_SPARE);
}

/* Names the client of PyTorch's store here that waits. */
static void member_name_client(struct member *m, const struct wire_waiting *x,
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

static void member_on_waiting(struct member *m, const struct wire_waiting *x)
{
	unsigned long long s = (x->waited_ms + 500) / 1000;
	char client[96] = "";

	if (x->peer.len)
		member_name_client(m, x, client, sizeof(client));
	if (m->has_started && !membership_waits(&m->membership))
		log_info("waiting %llu s for %.*s%s (job '%s')", s,
			 SLICE_FMT(x->text), client, m->options->job);
	if (m->membership.state != MEMBER_WAITING || m->progress.starts_ms)
		return;
	join_progress_log_awaited(&m->progress, x->text, s);
	m->events->on_waiting(m);
}

static int member_on_start(struct member *m, const struct wire_frame *f,
			   struct err *e)
{
	struct wire_start start;
	const struct member_news news = {.start = &start};
	int rc = wire_get_start(f, &start, e);

	if (rc == 0)
		member_handle(m, MEMBER_ON_START, &news);
	return rc;
}

static int member_on_end(struct member *m, const struct wire_frame *f,
			 struct err *e)
{
	struct wire_end end;
	const struct member_news news = {.end = &end};
	int rc = wire_get_end(f, &end, e);

	if (rc == 0)
		member_handle(m,
			      end.verdict == WIRE_RESTART ||
					      end.verdict == WIRE_REGROUP
				      ? MEMBER_ON_ROUND_END
				      : MEMBER_ON_JOB_END,
			      &news);
	return rc;
}

static int member_on_notice(struct member *m, const struct wire_frame *f,
			    struct err *e)
{
	struct wire_state state;
	struct wire_waiting waiting;
	struct wire_dump_request look;
	struct wire_stop stop;
	struct wire_stalled stall;
	struct wire_slow slow;
	struct wire_gpu_news news;
	struct wire_role_news role;
	struct wire_look stack;
	int rc = 0;

	switch (f->type) {
	case WIRE_STATE:
		rc = wire_get_state(f, &state, e);
		if (rc == 0)
			member_on_state(m, &state);
		return rc;
	case WIRE_START:
		return member_on_start(m, f, e);
	case WIRE_END:
		return member_on_end(m, f, e);
	case WIRE_STOP:
		rc = wire_get_stop(f, &stop, e);
		if (rc == 0)
			m->events->on_stop(m, &stop);
		return rc;
	case WIRE_STALLED:
		rc = wire_get_stalled(f, &stall, e);
		if (rc == 0)
			m->events->on_stalled(m, &stall);
		return rc;
	case WIRE_SLOW:
		rc = wire_get_slow(f, &slow, e);
		if (rc == 0)
			m->events->on_slow(m, &slow);
		return rc;
	case WIRE_GPU_NEWS:
		rc = wire_get_gpu_news(f, &news, e);
		if (rc == 0)
			m->events->on_gpu_news(m, &news);
		return rc;
	case WIRE_ROLE_NEWS:
		rc = wire_get_role_news(f, &role, e);
		if (rc == 0)
			m->events->on_role_news(m, &role);
		return rc;
	case WIRE_LOOK:
		rc = wire_get_look(f, &stack, e);
		if (rc == 0)
			m->events->on_look(m, &stack);
		return rc;
	case WIRE_VOUCH:
		rc = vouch_answer(&m->vouch, f, member_out(m), e);
		member_flush(m);
		return rc;
	case WIRE_WAITING:
		rc = wire_get_waiting(f, &waiting, e);
		if (rc == 0)
			member_on_waiting(m, &waiting);
		return rc;
	case WIRE_DUMP_REQUEST:
		rc = wire_get_dump_request(f, &look, e);
		if (rc == 0 && look.lines)
			m->events->on_output(m, &look);
		else if (rc == 0)
			node_dumps_start(&m->pages, &look);
		return rc;
	default:
		return 0; /* a later server may know more than we do */
	}
}

void member_handle_frame(struct member *m, const struct wire_frame *f)
{
	struct err e = ERR_INIT;

	m->unanswered = 0;
	reconnect_on_heard(&m->reconnect);
	if (member_is_resume_reply(m, f))
		member_on_resumed(m, f);
	else if (f->kind == WIRE_ERROR_REPLY)
		member_on_error(m, f);
	else if (f->kind == WIRE_NOTICE && member_on_notice(m, f, &e) < 0)
		member_fail(m, &e);
}

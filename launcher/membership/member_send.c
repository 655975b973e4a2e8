/* member_send.c: what a member tells the server: JOIN, RESUME, PING and the
 * notices, of which the outbox keeps those that must not be lost. */
#include <string.h>
#include <unistd.h>

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

void member_send_page(void *owner, const struct wire_dump_reply *page)
{
	struct member *m = owner;

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

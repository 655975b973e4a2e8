/* join_progress.c: the lines of a node that waits. */
#include "launcher/membership/join_progress.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/env/launch_env.h"
#include "launcher/membership/connection_internal.h"

enum {
	LINE_MAX_BYTES = 4096,
	SILENT_S = 5, /* a server that is there has answered by then */
};

/* The command that brings another node. */
static void join_progress_command(const struct join_progress *p, char *how,
				  size_t size)
{
	const struct rdzv_options *c = p->options;

	if (c->etcd.members)
		snprintf(how, size, "the same command there");
	else if (listen_addrs_is_loopback(c->endpoint.host))
		snprintf(how, size,
			 "the same command, on another host add "
			 "--rdzv-endpoint HOST:%u",
			 sock_addr_port(&p->connection->addr));
	else
		snprintf(how, size,
			 "the same command there, with "
			 "--rdzv-endpoint %s",
			 p->connection->where);
}

static void join_progress_log_silence(const struct join_progress *p,
				      unsigned long long s)
{
	const struct connection *c = p->connection;
	char addr[SOCK_TEXT_MAX];

	sock_addr_text(&c->addr, addr);
	if (s < SILENT_S)
		log_info("waiting %llu s for an answer from %s (job '%s')", s,
			 c->where, p->options->job);
	else if (strcmp(addr, c->where) == 0)
		log_info("waiting %llu s for an answer from %s (job '%s'): "
			 "does a firewall between the hosts close that port?",
			 s, c->where, p->options->job);
	else
		log_info("waiting %llu s for an answer from %s (job '%s'): "
			 "no answer from %s, which is its address on this "
			 "host; is that right, and does no firewall close the "
			 "port?", s, c->where, p->options->job, addr);
}

static void join_progress_log_outside(const struct join_progress *p,
				      unsigned long long s)
{
	const struct rdzv_options *c = p->options;

	if (c->etcd.members)
		log_info("waiting %llu s for a server of job '%s' at %s%s%s", s,
			 c->job, p->connection->where,
			 p->connection->last.code ? ": " : "",
			 p->connection->last.text);
	else if (p->connection->phase == CONNECTION_CALLING)
		join_progress_log_silence(p, s);
	else
		log_info("waiting %llu s for the rendezvous at %s (job '%s')"
			 "%s%s; it starts with ddprun on the host that has that"
			 " address%s",
			 s, p->connection->where, c->job,
			 p->connection->last.code ? ": " : "",
			 p->connection->last.text,
			 c->shares_port && c->is_host == 0
				 ? " and --node-rank 0" : "");
}

/* "2 nodes", "2 to 4 nodes"; returns text. */
static const char *join_progress_nodes(const struct join_progress *p,
				       char *text, size_t size)
{
	const struct rdzv_options *c = p->options;

	if (c->min_nodes == c->max_nodes)
		snprintf(text, size, "%u nodes", c->max_nodes);
	else
		snprintf(text, size, "%u to %u nodes", c->min_nodes,
			 c->max_nodes);
	return text;
}

uint64_t join_progress_last_call_ms(const struct join_progress *p)
{
	uint64_t late_ms = (uint64_t)(p->options->heartbeat_s * 1000);
	uint64_t now = clock_ms();

	if (!p->starts_ms || now >= p->starts_ms + late_ms)
		return 0;
	return p->starts_ms + late_ms - now;
}

void join_progress_log_spare(const struct join_progress *p)
{
	const struct rdzv_options *c = p->options;

	if (p->has_started) { /* and has logged why */
		log_info("this node waits as a spare of job '%s' from now on",
			 c->job);
		return;
	}
	log_info("this node waits as a spare: job '%s' at %s has its %u node%s "
		 "and takes this one when it loses one; if this is another job,"
		 " give it its own --rdzv-id",
		 c->job, p->connection->where, c->max_nodes,
		 c->max_nodes == 1 ? "" : "s");
}

static void join_progress_log_last_call(const struct join_progress *p)
{
	const struct rdzv_options *c = p->options;
	uint64_t now = clock_ms();
	uint64_t left = p->starts_ms > now ? p->starts_ms - now : 0;
	char nodes[64];

	log_info("%u of %s have joined at %s (job '%s'); starting in %llu s "
		 "unless more join (--last-call-timeout)",
		 p->joined, join_progress_nodes(p, nodes, sizeof(nodes)),
		 p->connection->where, c->job,
		 (unsigned long long)(left + 500) / 1000);
}

/* Splits "1 of 2 nodes: node 1 (h2, not connected)" at the colon. Under Slurm
 * the nodes that are not connected have names as well. */
static void join_progress_put_awaited(const struct join_progress *p,
				      struct buf *head, struct buf *names)
{
	const char *colon = strstr(p->awaited, ": ");
	size_t n = colon ? (size_t)(colon - p->awaited) : strlen(p->awaited);

	buf_printf(head, "%.*s%s", (int)n, p->awaited,
		   p->has_started ? " to come back" : "");
	if (!colon)
		return;
	buf_put(names, ": ", 2);
	if (p->options->nports) /* all nodes are the launcher's */
		launch_env_name_nodes(p->options->env, colon + 2, names);
	else
		buf_put(names, colon + 2, strlen(colon + 2));
}

/* What brings the missing nodes. */
static void join_progress_remedy(const struct join_progress *p, char *text,
				 size_t size)
{
	const struct rdzv_options *c = p->options;
	char how[SOCK_TEXT_MAX + 128];

	text[0] = '\0';
	join_progress_command(p, how, sizeof(how));
	if (c->nports && strstr(p->awaited, ": "))
		snprintf(text, size, "; %s %s ddprun there as well",
			 c->env->command, p->has_started ? "started" :
				 "starts");
	else if (!p->has_started)
		snprintf(text, size, "; start the other%s with %s",
			 c->max_nodes - p->joined > 1 ? "s" : "", how);
}

void join_progress_log_awaited(struct join_progress *p, struct slice text,
			       unsigned long long s)
{
	char remedy[SOCK_TEXT_MAX + 192];
	struct buf head = BUF_INIT(LINE_MAX_BYTES), names = head;

	snprintf(p->awaited, sizeof(p->awaited), "%.*s", SLICE_FMT(text));
	join_progress_put_awaited(p, &head, &names);
	join_progress_remedy(p, remedy, sizeof(remedy));
	log_info("waiting %llu s at %s for %.*s (job '%s')%.*s%s", s,
		 p->connection->where, (int)head.len, head.data,
			 p->options->job,
		 (int)names.len, names.len ? names.data : "", remedy);
	buf_release(&head);
	buf_release(&names);
}

void join_progress_log(const struct join_progress *p, int is_spare)
{
	unsigned long long s = (clock_ms() - p->began_ms + 500) / 1000;

	if (p->connection->phase != CONNECTION_IN)
		join_progress_log_outside(p, s);
	else if (is_spare)
		return; /* join_progress_log_spare was enough */
	else if (p->joined && p->starts_ms)
		join_progress_log_last_call(p);
}

void join_progress_timeout_error(const struct join_progress *p, struct err *e)
{
	const struct rdzv_options *c = p->options;
	const struct connection *at = p->connection;
	char nodes[64];

	if (at->phase == CONNECTION_IN)
		err_set(e, ERR_TIMEOUT,
			"gave up after %g s: only %u of %s joined at %s "
			"(job '%s')%s%s; start them all within --rdzv-timeout",
			c->timeout_s, p->joined,
			join_progress_nodes(p, nodes, sizeof(nodes)), at->where,
			c->job, p->awaited[0] ? "; waited for " : "",
			p->awaited);
	else if (c->etcd.members)
		err_set(e, ERR_TIMEOUT,
			"gave up after %g s: no node became the server of job "
			"'%s' at %s%s%s; check etcd, or raise --rdzv-timeout",
			c->timeout_s, c->job, at->where,
			at->last.code ? ": " : "", at->last.text);
	else
		err_set(e, ERR_TIMEOUT,
			"gave up after %g s: no rendezvous at %s%s%s; start "
			"ddprdzv or node 0's ddprun there, or raise "
			"--rdzv-timeout",
			c->timeout_s, at->where, at->last.code ? ": " : "",
			at->last.text);
}

void join_progress_begin(struct join_progress *p, int has_started)
{
	p->began_ms = clock_ms();
	p->has_started = has_started;
	p->joined = 0;
	p->starts_ms = 0;
	p->awaited[0] = '\0';
}

void join_progress_set_state(struct join_progress *p,
			     const struct wire_state *state)
{
	p->joined = state->joined;
	p->starts_ms =
		state->last_call_ms ? clock_ms() + state->last_call_ms : 0;
	log_debug("%u of %u nodes have joined", p->joined,
		  p->options->max_nodes);
}

int join_progress_is_due(const struct join_progress *p)
{
	return clock_ms() - p->began_ms >= JOIN_PROGRESS_FIRST_MS;
}

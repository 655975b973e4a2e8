/* join_progress.c: the lines of an agent that waits. */
#include "launcher/membership/join_progress.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/config/inferred.h"
#include "launcher/membership/listen_addrs.h"

enum { LINE_MAX_BYTES = 4096 };

static void say_how(const struct member *m, char *how, size_t size)
{
	const struct config *c = m->config;

	if (c->etcd.members)
		snprintf(how, size, "the same command there");
	else if (listen_addrs_is_loopback(c->endpoint.host))
		snprintf(how, size,
			 "the same command, on another host add "
			 "--rdzv-endpoint HOST:%u",
			 sock_addr_port(&m->connection.addr));
	else
		snprintf(how, size,
			 "the same command there, with "
			 "--rdzv-endpoint %s",
			 m->connection.where);
}

static void speak_outside(const struct member *m, unsigned long long s)
{
	const struct config *c = m->config;

	if (c->etcd.members)
		log_info("waiting %llu s for a server of job '%s' at %s%s%s", s,
			 c->job, m->connection.where,
			 m->connection.last.code ? ": " : "",
			 m->connection.last.text);
	else if (m->connection.phase == CONNECTION_CALLING)
		log_info("waiting %llu s for an answer from %s (job '%s')", s,
			 m->connection.where, c->job);
	else
		log_info("waiting %llu s for the rendezvous at %s (job '%s')"
			 "%s%s; it starts with ddprun on the host that has that"
			 " address",
			 s, m->connection.where, c->job,
			 m->connection.last.code ? ": " : "",
			 m->connection.last.text);
}

/* "2 nodes", "2 to 4 nodes" */
const char *join_progress_nodes(const struct member *m, char *text, size_t size)
{
	const struct config *c = m->config;

	if (c->min_nodes == c->max_nodes)
		snprintf(text, size, "%u nodes", c->max_nodes);
	else
		snprintf(text, size, "%u to %u nodes", c->min_nodes,
			 c->max_nodes);
	return text;
}

void join_progress_log_spare(const struct member *m)
{
	const struct config *c = m->config;

	log_info("this node waits as a spare: job '%s' at %s has its %u node%s "
		 "and takes this one when it loses one; if this is another job,"
		 " give it its own --rdzv-id",
		 c->job, m->connection.where, c->max_nodes,
		 c->max_nodes == 1 ? "" : "s");
}

static void speak_last_call(const struct member *m)
{
	const struct config *c = m->config;
	uint64_t now = clock_ms();
	uint64_t left = m->starts_ms > now ? m->starts_ms - now : 0;
	char nodes[64];

	log_info("%u of %s are there at %s (job '%s'); starting in %llu s "
		 "unless more come (--last-call-timeout)",
		 m->joined, join_progress_nodes(m, nodes, sizeof(nodes)),
		 m->connection.where, c->job,
		 (unsigned long long)(left + 500) / 1000);
}

/* "1 of 2 nodes: node 1 (h2, not connected)" in its two halves; Slurm knows
 * their names, and has started them. */
static void say_awaited(const struct member *m, struct buf *head,
			struct buf *names)
{
	const char *colon = strstr(m->awaited, ": ");
	size_t n = colon ? (size_t)(colon - m->awaited) : strlen(m->awaited);

	buf_printf(head, "%.*s%s", (int)n, m->awaited,
		   m->started ? " to come back" : "");
	if (!colon)
		return;
	buf_put(names, ": ", 2);
	inferred_name_nodes(m->config, colon + 2, names);
}

/* How those come that are missing: by whom, and with what. */
static void say_remedy(const struct member *m, char *text, size_t size)
{
	const struct config *c = m->config;
	char how[SOCK_TEXT_MAX + 128];

	text[0] = '\0';
	say_how(m, how, sizeof(how));
	if (c->nports && strstr(m->awaited, ": "))
		snprintf(text, size, "; srun %s ddprun there, too",
			 m->started ? "had" : "starts");
	else if (!m->started)
		snprintf(text, size, "; start the other%s with %s",
			 c->max_nodes - m->joined > 1 ? "s" : "", how);
}

void join_progress_log_awaited(const struct member *m, unsigned long long s)
{
	char remedy[SOCK_TEXT_MAX + 192];
	struct buf head = BUF_INIT(LINE_MAX_BYTES), names = head;

	say_awaited(m, &head, &names);
	say_remedy(m, remedy, sizeof(remedy));
	log_info("waiting %llu s at %s for %.*s (job '%s')%.*s%s", s,
		 m->connection.where, (int)head.len, head.data, m->config->job,
		 (int)names.len, names.len ? names.data : "", remedy);
	buf_release(&head);
	buf_release(&names);
}

/* Whom it waits for at the server, that says itself, and when. */
void join_progress_log(const struct member *m)
{
	unsigned long long s = (clock_ms() - m->began_ms + 500) / 1000;

	if (m->connection.phase != CONNECTION_IN)
		speak_outside(m, s);
	else if (m->spare)
		return; /* was said once */
	else if (m->joined && m->starts_ms)
		speak_last_call(m);
}

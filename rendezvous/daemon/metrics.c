/* metrics.c: computes gauges when they are requested; the server counts events
 * as they happen. */
#include "rendezvous/daemon/daemon_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/election/leadership.h"
#include "rendezvous/journal/journal_file.h"
#include "rendezvous/net/http_server.h"
#include "rendezvous/query/query.h"

/* The current state, counted on request. */
struct now {
	uint64_t unproven, agents, workers_connected, tools;
	uint64_t jobs[JOB_STATES], nodes, spares, workers;
	uint64_t keys, bytes, memory, parked, waiting;
};

static void metrics_count_job(struct now *n, const struct hosted_job *h)
{
	struct wire_job m;

	job_status(h->job, &m);
	n->jobs[m.state]++;
	n->nodes += h->agentless ? 0 : m.joined;
	n->spares += m.spares;
	n->workers += m.world_size - m.exited;
	n->memory += h->account->bytes;
	if (h->store) {
		n->keys += store_keys(h->store);
		n->bytes += store_bytes(h->store);
	}
}

static void metrics_count_peer(struct now *n, const struct peer *p)
{
	n->unproven += p->role == 0;
	n->agents += p->role == WIRE_AGENT;
	n->workers_connected += p->role == WIRE_WORKER;
	n->tools += p->role == WIRE_TOOL;
	n->parked += p->hosted ? p->session.nparked : 0;
	n->waiting += p->role == WIRE_AGENT && p->hosted && p->node &&
		      job_node_waits(p->hosted->job, p->node);
}

static void metrics_count(struct now *n, const struct server *s)
{
	struct hosted_job *h = NULL;
	const struct peer *p = NULL;

	memset(n, 0, sizeof(*n));
	while ((h = server_next_named_job(s, h)))
		metrics_count_job(n, h);
	while ((p = server_next_peer(s, p)))
		metrics_count_peer(n, p);
}

/* ---- the text ---- */

static void metrics_put_head(struct buf *out, const char *name,
			     const char *type, const char *help)
{
	buf_printf(out, "# HELP ddprdzv_%s %s\n# TYPE ddprdzv_%s %s\n", name,
		   help, name, type);
}

static void metrics_put_one(struct buf *out, const char *name, const char *type,
			    const char *help, uint64_t value)
{
	metrics_put_head(out, name, type, help);
	buf_printf(out, "ddprdzv_%s %llu\n", name, (unsigned long long)value);
}

static void metrics_put_labelled(struct buf *out, const char *name,
				 const char *label, const char *value,
				 uint64_t n)
{
	buf_printf(out, "ddprdzv_%s{%s=\"", name, label);
	for (; *value; value++)
		buf_put_u8(out, (uint8_t)tolower((unsigned char)*value));
	buf_printf(out, "\"} %llu\n", (unsigned long long)n);
}

static void metrics_put_connections(struct buf *out, const struct server *s,
				    const struct now *n)
{
	metrics_put_head(out, "connections", "gauge",
			 "Connected clients, by role.");
	metrics_put_labelled(out, "connections", "role", "unproven",
			     n->unproven);
	metrics_put_labelled(out, "connections", "role", "agent", n->agents);
	metrics_put_labelled(out, "connections", "role", "worker",
			     n->workers_connected);
	metrics_put_labelled(out, "connections", "role", "tool", n->tools);
	metrics_put_one(out, "connections_accepted_total", "counter",
			"Connections accepted.", s->counts.accepted);
	metrics_put_head(out, "connections_refused_total", "counter",
			 "Clients refused, by reason.");
	metrics_put_labelled(out, "connections_refused_total", "reason",
			     "descriptors", s->counts.refused_full);
	metrics_put_labelled(out, "connections_refused_total", "reason",
			     "hello", s->counts.refused_hello);
	metrics_put_one(out, "received_bytes_total", "counter",
			"Bytes received from clients.", s->pool.bytes_in);
	metrics_put_one(out, "sent_bytes_total", "counter",
			"Bytes sent to clients.", s->pool.bytes_out);
}

static void metrics_put_jobs(struct buf *out, const struct server *s,
			     const struct now *n)
{
	metrics_put_head(out, "jobs", "gauge", "Jobs, by state.");
	for (int i = 0; i < JOB_STATES; i++)
		metrics_put_labelled(out, "jobs", "state", job_state_name(i),
				     n->jobs[i]);
	metrics_put_one(out, "nodes", "gauge", "Nodes that have joined.",
			n->nodes);
	metrics_put_one(out, "spares", "gauge", "Nodes that wait as spares.",
			n->spares);
	metrics_put_one(out, "workers", "gauge", "Workers in running rounds.",
			n->workers);
	metrics_put_one(out, "rounds_total", "counter", "Rounds started.",
			s->counts.rounds);
	metrics_put_one(out, "restarts_total", "counter",
			"Rounds that ended with a restart after a failure.",
			s->counts.restarts);
	metrics_put_one(out, "regroups_total", "counter",
			"Rounds that ended because nodes joined or left.",
			s->counts.changes);
	metrics_put_head(out, "round_ends_total", "counter",
			 "Rounds that ended, by cause.");
	for (int i = 0; i < SERVER_ROUND_ENDS; i++)
		metrics_put_labelled(out, "round_ends_total", "cause",
				     server_round_end_name(i),
				     s->counts.ends[i]);
	metrics_put_one(out, "leases_lost_total", "counter",
			"Agents lost because they were silent for their lease.",
			s->counts.leases_lost);
	metrics_put_one(out, "jobs_expired_total", "counter",
			"Jobs ended because they were idle.",
			s->counts.expired);
	metrics_put_one(out, "waiting_agents", "gauge",
			"Agents waiting for a round to start.", n->waiting);
}

static void metrics_put_journal(struct buf *out, const struct server *s)
{
	if (s->leadership)
		metrics_put_one(out, "serving", "gauge",
				"1 if etcd names this server as its job's "
				"leader, 0 if it stands by.",
				(uint64_t)leadership_is_sure(s->leadership));
	if (s->writer.file)
		metrics_put_one(out, "journal_bytes", "gauge",
				"Bytes in the journal.",
				journal_file_bytes(s->writer.file));
}

static void metrics_put_store(struct buf *out, const struct server *s,
			      const struct now *n)
{
	metrics_put_one(out, "store_keys", "gauge",
			"Keys in the stores of all rounds.", n->keys);
	metrics_put_one(out, "store_bytes", "gauge",
			"Bytes of keys and values in these stores.", n->bytes);
	metrics_put_one(out, "memory_bytes", "gauge",
			"Bytes held for jobs: stores, waiting requests, "
			"clients and their buffers.",
			n->memory);
	metrics_put_one(out, "parked_requests", "gauge",
			"Worker requests waiting for a reply.", n->parked);
	metrics_put_head(out, "requests_total", "counter",
			 "Messages from clients, by type.");
	for (size_t i = 0;
	     i < sizeof(s->counts.requests) / sizeof(*s->counts.requests); i++)
		if (strncmp(wire_type_name((int)i), "type ", 5) != 0)
			metrics_put_labelled(out, "requests_total", "type",
					     wire_type_name((int)i),
					     s->counts.requests[i]);
}

/* Appends the metrics in Prometheus' format. */
static void metrics_put(struct buf *out, const struct server *s)
{
	struct now n;

	metrics_count(&n, s);
	metrics_put_connections(out, s, &n);
	metrics_put_jobs(out, s, &n);
	metrics_put_store(out, s, &n);
	metrics_put_journal(out, s);
	rank_report_put_metrics(out, s);
	stall_report_put_metrics(out, s);
	gpu_report_put_metrics(out, s);
}

/* ---- the port ---- */

static int metrics_on_page(void *arg, const struct http_get *q,
			   struct http_reply *r)
{
	const struct server *s = arg;

	if (strcmp(q->path, "/health") == 0) {
		buf_printf(&r->text, s->draining ? "stopping\n" : "ok\n");
		return s->draining ? 503 : 200;
	}
	if (strcmp(q->path, "/metrics") == 0) {
		r->type = "text/plain; version=0.0.4; charset=utf-8";
		metrics_put(&r->text, s);
		return 200;
	}
	buf_printf(&r->text,
		   "not found: /health and /metrics are here\n");
	return 404;
}

int metrics_open(struct server *s, const char *text, struct err *e)
{
	char at[SOCK_TEXT_MAX];
	struct endpoint where;
	struct sock_addr a;
	int rc = http_server_listen("--metrics-listen", text, &where, &a, e);

	if (rc >= 0)
		rc = http_server_open(&s->metrics, s->loop, rc, metrics_on_page,
				      s, e);
	if (rc == 0)
		log_info("serving health and metrics at http://%s/",
			 sock_addr_text(&a, at));
	return rc;
}

void metrics_close(struct server *s)
{
	http_server_close(s->metrics);
	s->metrics = NULL;
}

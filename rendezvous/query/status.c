/* status.c: describes a job in a JOB notice. */
#include <stdlib.h>

#include "rendezvous/query/query.h"

/* By rank: 1 if the worker is connected. NULL: out of memory. */
static uint8_t *status_connected_ranks(const struct hosted_job *h, uint32_t n)
{
	uint8_t *is = calloc(n + 1, 1);
	const struct peer *p = NULL;

	while (is && (p = hosted_job_next_worker(h, p)))
		if (p->session.rank < n)
			is[p->session.rank] = 1;
	return is;
}

static void status_put_node(struct buf *items, const struct hosted_job *h,
			    const struct job_node *n, const uint8_t *connected)
{
	const struct peer *p = job_node_owner(n);
	struct wire_job_node item;

	job_node_status(h->job, n, &item);
	for (uint32_t i = 0;
	     connected && item.state == WIRE_NODE_RUNS && i < item.nproc; i++)
		item.connected += connected[item.base_rank + i];
	if (p)
		item.silent_ms = uv_now(h->server->loop) - p->conn.heard;
	wire_put_job_node_item(items, &item);
}

/* Describes what the nodes wait for, or the worker that has waited longest;
 * returns for how long. */
static uint64_t status_put_awaited(struct hosted_job *h, struct wait_text *a)
{
	uint64_t now = uv_now(h->server->loop), since = h->since;
	const struct parked *p, *oldest = NULL;
	const struct peer *peer = NULL;
	uint64_t torch = 0;

	if (job_state(h->job) != JOB_RUNNING) {
		wait_report_for_nodes(h, a);
		return now - since;
	}
	while ((peer = hosted_job_next_worker(h, peer)))
		for (p = peer->session.parked; p; p = p->next)
			if (!oldest || p->waited.since < oldest->waited.since)
				oldest = p;
	if (!oldest && (torch = wait_report_for_torch(h, a)))
		return now - torch;
	if (!oldest || now - oldest->waited.since < WAIT_REPORT_TICK_MS)
		return 0;
	wait_report_for_request(oldest, a);
	return now - oldest->waited.since;
}

static void status_put_job(struct buf *out, struct hosted_job *h)
{
	uint8_t *connected = status_connected_ranks(h, job_world_size(h->job));
	struct buf items = BUF_INIT(WIRE_BODY_MAX / 2);
	struct wait_text a = {.hash = 0};
	struct job_node *n = NULL;
	struct wire_job m;

	wait_text_init(&a);
	job_status(h->job, &m);
	m.state_ms = uv_now(h->server->loop) - h->since;
	m.waited_ms = status_put_awaited(h, &a);
	m.text = SLICE(a.text.data, a.text.len);
	m.connected = h->nworkers;
	m.keys = h->store ? store_keys(h->store) : 0;
	m.bytes = h->store ? store_bytes(h->store) : 0;
	while (!h->agentless && (n = job_next_node(h->job, n))) {
		status_put_node(&items, h, n, connected);
		m.nodes.count++;
	}
	if (items.failed) /* too many nodes for one notice: leave them out */
		m.nodes.count = 0;
	m.nodes.bytes = SLICE(items.data, m.nodes.count ? items.len : 0);
	wire_put_job(out, WIRE_JOB, WIRE_NOTICE, 0, &m);
	buf_release(&items);
	wait_text_release(&a);
	free(connected);
}

void status_put(struct buf *out, struct hosted_job *h)
{
	status_put_job(out, h);
	stall_report_put_ranks(out, h);
	gpu_report_put(out, h);
}

int status_take(struct peer *tool, const struct wire_frame *f, struct err *e)
{
	struct server *s = tool->server;
	struct wire_asked reply = {0};
	struct hosted_job *h = NULL;

	while ((h = server_next_named_job(s, h))) {
		if (*tool->job_id && strcmp(tool->job_id, job_id(h->job)) != 0)
			continue;
		status_put(conn_out(&tool->conn), h);
		reply.asked++;
	}
	wire_put_asked(conn_out(&tool->conn), f->type, WIRE_REPLY, f->id,
		       &reply);
	return 0;
}

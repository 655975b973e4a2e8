/* dump.c: one request of a tool, and the agents that have not replied yet. */
#include "rendezvous/query/query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	IDLE_MS = 10000, /* a tool's time to send a request */
	LATE_MS = 1000,	 /* for replies sent at the deadline to arrive */
	/* with more unread bytes, pages are dropped, so that at least the rest
	 * of the reply is sent */
	UNREAD_MAX = CONN_OUT_MAX / 2,
};

struct asked {
	struct peer *agent; /* NULL: its reply was passed on */
	int32_t node_rank;
	char *host;
};

struct dump {
	struct dump *next, **pprev;
	struct server *server;
	struct peer *tool;	    /* asked for it, or NULL: */
	struct dump_reader *reader; /* asked for it */
	uint32_t id;	 /* the tool's request */
	uint32_t number; /* the number of the request to the agents */
	uint64_t due;
	uint32_t n, open; /* agents asked; replies missing */
	struct asked *nodes;
};

static uint64_t dump_now_ms(const struct peer *p)
{
	return uv_now(p->server->loop);
}

static void dump_free(struct dump *d)
{
	*d->pprev = d->next;
	if (d->next)
		d->next->pprev = d->pprev;
	for (uint32_t i = 0; i < d->n; i++)
		free(d->nodes[i].host);
	free(d->nodes);
	free(d);
}

static size_t dump_unread_bytes(const struct peer *p)
{
	return p->conn.out.len + p->conn.sending.len;
}

/* Sends one node's reply, once. */
static void dump_send_node(struct dump *d, struct asked *a,
			   struct wire_node_dump *m)
{
	if (d->tool && dump_unread_bytes(d->tool) + m->page.len + m->out.len +
			       m->err.len + m->calls.bytes.len > UNREAD_MAX) {
		m->page = m->out = m->err = SLICE("", 0);
		m->calls = (struct wire_items){0, SLICE("", 0)};
		m->text =
			SLICE_STR("the tool reads too slowly to receive this "
				  "node's dump; --no-stacks makes it shorter");
	}
	m->node_rank = a->node_rank;
	m->host = SLICE_STR(a->host);
	m->silent_ms = dump_now_ms(a->agent) - a->agent->conn.heard;
	if (d->tool)
		wire_put_node_dump(conn_out(&d->tool->conn), WIRE_NODE,
				   WIRE_NOTICE, 0, m);
	else
		d->reader->on_node(d->reader, m);
	a->agent = NULL;
	d->open--;
}

static void dump_finish_if_done(struct dump *d)
{
	const struct wire_asked m = {d->n};
	struct dump_reader *reader = d->reader;

	if (d->open)
		return;
	if (!d->tool) {
		dump_free(d);
		reader->on_done(reader);
		return;
	}
	wire_put_asked(conn_out(&d->tool->conn), WIRE_DUMP, WIRE_REPLY, d->id,
		       &m);
	conn_due(&d->tool->conn, dump_now_ms(d->tool) + IDLE_MS);
	dump_free(d);
}

static struct dump *dump_of(const struct peer *tool)
{
	struct dump *d = tool->server->dumps;

	while (d && d->tool != tool)
		d = d->next;
	return d;
}

static struct asked *dump_find_node(struct dump *d, const struct peer *agent)
{
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->nodes[i].agent == agent)
			return &d->nodes[i];
	}
	return NULL;
}

/* ---- asking ---- */

/* Accepts a tool, which has been authenticated, for an existing job. */
int dump_hello(struct peer *tool, const struct wire_hello *hello, struct err *e)
{
	struct hosted_job *h = server_find_named_job(tool->server, hello->job);

	if (!h && hello->job.len)
		return err_set(e, ERR_REFUSED, "there is no job '%.*s' at %s",
			       SLICE_FMT(hello->job), tool->server->endpoint);
	tool->job_id = strndup(hello->job.data, hello->job.len);
	if (!tool->job_id)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	conn_due(&tool->conn, dump_now_ms(tool) + IDLE_MS);
	return 0;
}

/* Whether the node's workers include that rank, in the running round. */
static int dump_node_has_rank(const struct job *job, const struct job_node *n,
			      uint32_t rank)
{
	struct wire_job_node item;

	if (!job_node_runs(n))
		return 0;
	job_node_status(job, n, &item);
	return rank >= item.base_rank && rank - item.base_rank < item.nproc;
}

/* All nodes; or that of one rank, whose output is asked for. */
static int dump_list_nodes(struct dump *d, struct job *job,
			   const struct wire_dump *m)
{
	struct job_node *n = NULL;
	uint32_t room = 0;

	while ((n = job_next_node(job, n)))
		room++;
	d->nodes = calloc(room + 1, sizeof(*d->nodes));
	if (!d->nodes)
		return -ENOMEM;
	while ((n = job_next_node(job, n))) {
		struct asked *a = &d->nodes[d->n];

		if (m->lines && !dump_node_has_rank(job, n, m->rank))
			continue;
		a->agent = job_node_owner(n);
		a->node_rank = job_node_rank(n);
		if (!a->agent || !(a->host = strdup(job_node_host(n))))
			continue;
		d->n++;
	}
	d->open = d->n;
	return 0;
}

static void dump_send_requests(struct dump *d, const struct wire_dump *m)
{
	const struct wire_dump_request look = {
		.number = d->number,
		.json = m->json,
		.no_stacks = m->no_stacks,
		.last = m->last,
		.timeout_ms = m->timeout_ms,
		.lines = m->lines,
		.rank = m->rank,
	};

	for (uint32_t i = 0; i < d->n; i++)
		wire_put_dump_request(conn_out(&d->nodes[i].agent->conn),
				      WIRE_DUMP_REQUEST, WIRE_NOTICE, 0, &look);
}

static int dump_check_request(const struct peer *tool,
			      const struct wire_dump *m, struct err *e)
{
	if (dump_of(tool))
		return err_set(e, ERR_ARGUMENT,
			       "DUMP: the previous one is still in progress");
	if (m->timeout_ms < 1 || m->timeout_ms > WIRE_DUMP_MAX_MS)
		return err_set(e, ERR_ARGUMENT,
			       "DUMP: timeout_ms is %u, not 1 to %d",
			       m->timeout_ms, WIRE_DUMP_MAX_MS);
	if (m->lines > WIRE_DUMP_LINES_MAX)
		return err_set(e, ERR_ARGUMENT, "DUMP: lines is %u, not 0 to "
			       "%d", m->lines, WIRE_DUMP_LINES_MAX);
	return 0;
}

/* Makes a dump of the job, and asks its agents. NULL with text. */
static struct dump *dump_new(struct server *s, struct slice job,
			     const struct wire_dump *m, struct err *e)
{
	struct hosted_job *h = server_find_named_job(s, job);
	struct dump *d;

	if (!h) {
		err_set(e, ERR_REFUSED, "job '%.*s' is no longer at %s",
			SLICE_FMT(job), s->endpoint);
		return NULL;
	}
	if (h->agentless) {
		err_set(e, ERR_REFUSED, "job '%.*s' at %s has no agents to ask",
			SLICE_FMT(job), s->endpoint);
		return NULL;
	}
	d = calloc(1, sizeof(*d));
	if (!d || dump_list_nodes(d, h->job, m) < 0) {
		free(d);
		err_set(e, -ENOMEM, "the rendezvous server is out of memory");
		return NULL;
	}
	if (m->lines && !d->n) {
		free(d->nodes);
		free(d);
		err_set(e, ERR_REFUSED, "no rank %u of job '%.*s' runs now",
			m->rank, SLICE_FMT(job));
		return NULL;
	}
	d->server = s;
	d->number = ++s->last_dump;
	d->due = uv_now(s->loop) + m->timeout_ms + LATE_MS;
	d->next = s->dumps;
	if (d->next)
		d->next->pprev = &d->next;
	d->pprev = &s->dumps;
	s->dumps = d;
	return d;
}

int dump_start(struct peer *tool, const struct wire_frame *f, struct err *e)
{
	struct wire_dump m;
	struct dump *d;
	int rc = wire_get_dump(f, &m, e);

	if (rc < 0 || (rc = dump_check_request(tool, &m, e)) < 0)
		return rc;
	d = dump_new(tool->server, SLICE_STR(tool->job_id), &m, e);
	if (!d)
		return e->code;
	d->tool = tool;
	d->id = f->id;
	conn_due(&tool->conn, d->due);
	dump_send_requests(d, &m);
	dump_finish_if_done(d);
	return 0;
}

int dump_start_for(struct dump_reader *reader, struct server *s,
		   struct slice job, const struct wire_dump *m, struct err *e)
{
	struct dump *d = dump_new(s, job, m, e);

	if (!d)
		return e->code;
	d->reader = reader;
	dump_send_requests(d, m);
	dump_finish_if_done(d);
	return 0;
}

/* ---- replies ---- */

int dump_page(struct peer *agent, const struct wire_frame *f, struct err *e)
{
	struct wire_dump_reply m;
	struct asked *a;
	struct dump *d = agent->server->dumps;
	int rc = wire_get_dump_reply(f, &m, e);

	if (rc < 0)
		return rc;
	while (d && d->number != m.number)
		d = d->next;
	a = d ? dump_find_node(d, agent) : NULL;
	if (!a)
		return 0;
	dump_send_node(d, a,
		       &(struct wire_node_dump){.answered = 1,
						.text = m.text,
						.page = m.page,
						.calls = m.calls,
						.out = m.out,
						.err = m.err});
	dump_finish_if_done(d);
	return 0;
}

/* Its time is over: reports the nodes that have not replied. */
static void dump_end(struct dump *d)
{
	for (uint32_t i = 0; i < d->n; i++) {
		if (d->nodes[i].agent)
			dump_send_node(d, &d->nodes[i],
				       &(struct wire_node_dump){0});
	}
	dump_finish_if_done(d);
}

void dump_on_due(struct peer *tool)
{
	struct dump *d = dump_of(tool);

	if (!d) {
		conn_finish(&tool->conn);
		return;
	}
	if (dump_now_ms(tool) < d->due) {
		conn_due(&tool->conn, d->due);
		return;
	}
	dump_end(d);
}

void dump_end_for(struct server *s, const struct dump_reader *reader)
{
	struct dump *d = s->dumps;

	while (d && d->reader != reader)
		d = d->next;
	if (d)
		dump_end(d);
}

void dump_forget(struct peer *p, const char *why)
{
	struct dump *d, *next;
	struct asked *a;

	for (d = p->server->dumps; d; d = next) {
		next = d->next;
		if (d->tool == p) {
			dump_free(d);
		} else if ((a = dump_find_node(d, p))) {
			dump_send_node(d, a,
				       &(struct wire_node_dump){
					       .text = SLICE_STR(why)});
			dump_finish_if_done(d);
		}
	}
}

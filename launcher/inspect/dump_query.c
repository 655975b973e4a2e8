/* dump_query.c: sends one DUMP and collects its NODE notices. */
#include "launcher/inspect/dump_query.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/control_client.h"

enum { MARGIN_MS = 5000 }; /* for the server, beyond the nodes' time */

struct dump_query_request {
	struct dump_query *query;
	const struct wire_dump *dump;
};

static int dump_query_add(struct dump_query *q, const struct wire_node_dump *m)
{
	struct dump_node *more =
		realloc(q->nodes, (q->n + 1) * sizeof(*more)), *n;
	size_t size = m->calls.bytes.len;
	char *page, *out;

	if (!more)
		return -ENOMEM;
	q->nodes = more;
	page = malloc(m->page.len + size + m->out.len + m->err.len + 1);
	if (!page)
		return -ENOMEM;
	memcpy(page, m->page.data, m->page.len);
	memcpy(page + m->page.len, m->calls.bytes.data, size);
	out = page + m->page.len + size;
	memcpy(out, m->out.data, m->out.len);
	memcpy(out + m->out.len, m->err.data, m->err.len);
	n = &q->nodes[q->n++];
	*n = (struct dump_node){
		.node_rank = m->node_rank, .answered = m->answered,
		.silent_ms = m->silent_ms,
		.page = SLICE(page, m->page.len),
		.calls = {m->calls.count, SLICE(page + m->page.len, size)},
		.out = SLICE(out, m->out.len),
		.err = SLICE(out + m->out.len, m->err.len),
		.host = strndup(m->host.data, m->host.len),
		.text = strndup(m->text.data, m->text.len),
	};
	return n->host && n->text ? 0 : -ENOMEM;
}

static void dump_query_put(struct buf *out, uint32_t id, const void *arg)
{
	const struct dump_query_request *r = arg;

	wire_put_dump(out, WIRE_DUMP, WIRE_REQUEST, id, r->dump);
}

static int dump_query_on_notice(void *arg, const struct wire_frame *f,
				struct err *e)
{
	struct dump_query_request *r = arg;
	struct wire_node_dump m;
	int rc;

	if (f->type != WIRE_NODE)
		return 0;
	rc = wire_get_node_dump(f, &m, e);
	if (rc == 0 && (rc = dump_query_add(r->query, &m)) < 0)
		rc = err_no_memory(e, "the dump");
	return rc;
}

static int dump_query_compare(const void *pa, const void *pb)
{
	const struct dump_node *a = pa, *b = pb;

	/* as unsigned, -1 is the largest */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return strcmp(a->host, b->host);
}

int dump_query_init(struct dump_query *q, const struct endpoint *server,
		    const char *job, const struct auth *auth,
		    const struct wire_dump *m, struct err *e)
{
	struct dump_query_request r = {q, m};
	const struct control_request request = {
		.job = job, .auth = auth, .put = dump_query_put,
		.on_notice = dump_query_on_notice, .arg = &r,
		.timeout_ms = m->timeout_ms + MARGIN_MS,
	};
	int rc;

	*q = (struct dump_query){.job = strdup(job)};
	if (!q->job)
		return err_no_memory(e, "the dump");
	rc = control_client_request(server, &request, e);
	if (rc == 0 && q->n)
		qsort(q->nodes, q->n, sizeof(*q->nodes), dump_query_compare);
	return rc;
}

void dump_query_release(struct dump_query *q)
{
	for (size_t i = 0; i < q->n; i++) {
		free(q->nodes[i].host);
		free(q->nodes[i].text);
		free((char *)q->nodes[i].page.data);
	}
	free(q->nodes);
	free(q->job);
	*q = (struct dump_query){NULL};
}

/* ask.c: one DUMP, its NODEs. */
#include "launcher/inspect/ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/tool.h"

enum { PATIENCE_MS = 5000 };

struct asking {
	struct ask *to;
	const struct wire_dump *question;
};

static int add(struct ask *a, const struct wire_node_page *m)
{
	struct asked_node *more =
		realloc(a->nodes, (a->n + 1) * sizeof(*more)), *n;
	size_t size = m->calls.bytes.len;
	char *page;

	if (!more)
		return -ENOMEM;
	a->nodes = more;
	page = malloc(m->page.len + size + 1);
	if (!page)
		return -ENOMEM;
	memcpy(page, m->page.data, m->page.len);
	memcpy(page + m->page.len, m->calls.bytes.data, size);
	n = &a->nodes[a->n++];
	*n = (struct asked_node){
		.node_rank = m->node_rank, .answered = m->answered,
		.silent_ms = m->silent_ms,
		.page = SLICE(page, m->page.len),
		.calls = {m->calls.count, SLICE(page + m->page.len, size)},
		.host = strndup(m->host.data, m->host.len),
		.text = strndup(m->text.data, m->text.len),
	};
	return n->host && n->text ? 0 : -ENOMEM;
}

static void put(struct buf *out, uint32_t id, const void *arg)
{
	const struct asking *x = arg;

	wire_put_dump(out, WIRE_DUMP, WIRE_REQUEST, id, x->question);
}

static int take(void *arg, const struct wire_frame *f, struct err *e)
{
	struct asking *x = arg;
	struct wire_node_page m;
	int rc;

	if (f->type != WIRE_NODE)
		return 0;
	rc = wire_get_node_page(f, &m, e);
	if (rc == 0 && (rc = add(x->to, &m)) < 0)
		err_set(e, rc, "out of memory for the dump");
	return rc;
}

static int compare(const void *pa, const void *pb)
{
	const struct asked_node *a = pa, *b = pb;

	/* -1 is the largest of all */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return strcmp(a->host, b->host);
}

int ask_init(struct ask *a, const struct endpoint *server, const char *job,
	     const struct auth *auth, const struct wire_dump *m,
	     struct err *e)
{
	struct asking x = {a, m};
	const struct tool_question q = {
		.job = job, .auth = auth, .put = put, .take = take, .arg = &x,
		.timeout_ms = m->timeout_ms + PATIENCE_MS,
	};
	int rc;

	*a = (struct ask){.job = strdup(job)};
	if (!a->job)
		return err_set(e, -ENOMEM, "out of memory for the dump");
	rc = tool_ask(server, &q, e);
	if (rc == 0 && a->n)
		qsort(a->nodes, a->n, sizeof(*a->nodes), compare);
	return rc;
}

void ask_release(struct ask *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->nodes[i].host);
		free(a->nodes[i].text);
		free((char *)a->nodes[i].page.data);
	}
	free(a->nodes);
	free(a->job);
	*a = (struct ask){NULL};
}

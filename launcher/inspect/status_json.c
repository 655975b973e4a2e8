/* status_json.c: `ddprun status --json`; docs/ddprun-status.1 has the names. */
#include <errno.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"
#include "launcher/inspect/status.h"

enum { VERSION = 1, TEXT_MAX = 64 << 10 };

static void add_text(const struct json *j, cJSON *to, const char *name,
		     struct slice text)
{
	struct buf clean = BUF_INIT(TEXT_MAX);

	utf8_put(&clean, text);
	buf_put(&clean, "", 1);
	if (clean.failed || !text.len)
		j->add_null(to, name);
	else
		j->add_string(to, name, clean.data);
	buf_release(&clean);
}

static double seconds(uint64_t ms)
{
	return (double)ms / 1000;
}

static cJSON *node_of(const struct json *j, const struct wire_job_node *n)
{
	cJSON *to = j->object();

	j->add_number(to, "node_rank", n->node_rank);
	add_text(j, to, "host", n->host);
	add_text(j, to, "address", n->addr);
	j->add_string(to, "state", status_node_state(n->state));
	j->add_number(to, "workers", n->nproc);
	if (n->state == WIRE_NODE_RUNS)
		j->add_number(to, "first_rank", n->base_rank);
	else
		j->add_null(to, "first_rank");
	j->add_number(to, "connected", n->connected);
	j->add_number(to, "ended", n->exited);
	j->add_number(to, "silent_seconds", seconds(n->silent_ms));
	return to;
}

static void add_waiting(const struct json *j, cJSON *to,
			const struct wire_job *m)
{
	cJSON *waiting;

	if (!m->text.len) {
		j->add_null(to, "waiting");
		return;
	}
	waiting = j->add_object(to, "waiting");
	j->add_number(waiting, "seconds", seconds(m->waited_ms));
	add_text(j, waiting, "for", m->text);
}

static cJSON *job_of(const struct json *j, const struct status_job *job)
{
	const struct wire_job *m = &job->as;
	cJSON *to = j->object(), *list;
	struct wire_job_node *nodes;
	uint32_t n = status_nodes(job, &nodes);

	add_text(j, to, "job", m->job);
	add_text(j, to, "server", SLICE_STR(job->server));
	j->add_string(to, "state", status_state(m->state));
	j->add_number(to, "state_seconds", seconds(m->state_ms));
	j->add_number(to, "round", m->round);
	j->add_number(to, "restarts", m->attempt);
	j->add_number(to, "max_restarts", m->max_restarts);
	j->add_number(to, "changes", m->changes);
	j->add_number(to, "min_nodes", m->min_nodes);
	j->add_number(to, "max_nodes", m->max_nodes);
	j->add_number(to, "joined", m->joined);
	j->add_number(to, "spares", m->spares);
	j->add_number(to, "world_size", m->world_size);
	j->add_number(to, "connected", m->connected);
	j->add_number(to, "ended", m->exited);
	j->add_number(to, "store_keys", (double)m->keys);
	j->add_number(to, "store_bytes", (double)m->bytes);
	add_waiting(j, to, m);
	add_text(j, to, "last_end", m->cause);
	list = j->add_array(to, "nodes");
	for (uint32_t i = 0; i < n; i++)
		j->append(list, node_of(j, &nodes[i]));
	free(nodes);
	return to;
}

int status_put_json(struct buf *out, const struct status *s, struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all, *jobs;
	char *text;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", VERSION);
	jobs = j->add_array(all, "jobs");
	for (size_t i = 0; i < s->n; i++)
		j->append(jobs, job_of(j, &s->jobs[i]));
	text = j->print_pretty(all);
	j->release(all);
	if (!text)
		return err_set(e, -ENOMEM, "out of memory");
	buf_put(out, text, strlen(text));
	buf_put(out, "\n", 1);
	j->free(text);
	return 0;
}

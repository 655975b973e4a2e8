/* job_json.c: jobs as JSON, whose keys docs/man/ddprun-status.1 describes. */
#include <stdlib.h>

#include "rendezvous/status/job_roles.h"
#include "rendezvous/status/job_status.h"

enum { JSON_VERSION = 1 };

static void job_json_add_waiting(const struct json *j, cJSON *to,
				    const struct wire_job *m)
{
	cJSON *waiting;

	if (!m->text.len) {
		j->add_null(to, "waiting");
		return;
	}
	waiting = j->add_object(to, "waiting");
	j->add_number(waiting, "seconds", (double)m->waited_ms / 1000);
	json_add_text_or_null(j, waiting, "for", m->text);
}

static cJSON *job_json_node(const struct json *j,
			       const struct wire_job_node *n)
{
	cJSON *to = j->object();

	j->add_number(to, "node_rank", n->node_rank);
	json_add_text_or_null(j, to, "host", n->host);
	json_add_text_or_null(j, to, "address", n->addr);
	json_add_text_or_null(j, to, "role", n->role);
	j->add_string(to, "state", job_status_node_state_name(n->state));
	j->add_number(to, "workers", n->nproc);
	if (n->state == WIRE_NODE_RUNS)
		j->add_number(to, "first_rank", n->base_rank);
	else
		j->add_null(to, "first_rank");
	j->add_number(to, "connected", n->connected);
	j->add_number(to, "ended", n->exited);
	j->add_number(to, "silent_seconds", (double)n->silent_ms / 1000);
	return to;
}

static void job_json_add_roles(const struct json *j, cJSON *to,
				  const struct wire_job *m)
{
	cJSON *list = j->add_array(to, "roles");
	struct slice text = job_roles_text(m);
	struct job_role role;

	while (job_roles_next(m, &text, &role)) {
		cJSON *item = j->object();

		json_add_text_or_null(j, item, "name", role.name);
		json_add_text_or_null(j, item, "ranks", role.ranks);
		j->add_bool(item, "optional", role.is_optional);
		j->append(list, item);
	}
}

static cJSON *job_json_job(const struct json *j,
			      const struct job_status *job)
{
	const struct wire_job *m = &job->as;
	cJSON *to = j->object(), *list;
	struct wire_job_node *nodes;
	uint32_t n = job_status_nodes(job, &nodes);

	json_add_text_or_null(j, to, "job", m->job);
	json_add_text_or_null(j, to, "server", SLICE_STR(job->server));
	j->add_string(to, "state", job_status_state_name(m->state));
	j->add_number(to, "state_seconds", (double)m->state_ms / 1000);
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
	job_json_add_waiting(j, to, m);
	json_add_text_or_null(j, to, "last_end", m->cause);
	job_json_add_roles(j, to, m);
	list = j->add_array(to, "nodes");
	for (uint32_t i = 0; i < n; i++)
		j->append(list, job_json_node(j, &nodes[i]));
	free(nodes);
	rank_progress_put_json(j, to, &job->ranks.ranks);
	gpu_status_put_json(j, to, SLICE(job->gpus.data, job->gpus.len));
	if (job->output)
		job_output_put_json(j, j->add_object(to, "output"),
				    job->output);
	return to;
}

int job_status_put_json(struct buf *out, const struct job_status_list *l,
		    struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all, *jobs;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", JSON_VERSION);
	jobs = j->add_array(all, "jobs");
	for (size_t i = 0; i < l->n; i++)
		j->append(jobs, job_json_job(j, &l->jobs[i]));
	return json_put(out, j, all, e);
}

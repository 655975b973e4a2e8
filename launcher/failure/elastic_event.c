/* elastic_event.c: the events as text. */
#include "launcher/failure/elastic_event.h"

#include "base/json.h"

static const char *elastic_event_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Lists of one number, because torchrun has a comma too many there. */
static void elastic_event_put_worker(struct buf *b,
				     const struct elastic_worker *w)
{
	buf_printf(b, ", \"local_rank\": [%u], \"role_rank\": [%u], "
		   "\"role_world_size\": [%u]", w->local_rank, w->role_rank,
		   w->role_world_size);
	if (w->has_failed)
		buf_printf(b, ", \"exit_code\": [%d], \"worker_pid\": [%d]",
			   w->exit_code, (int)w->pid);
	else
		buf_printf(b, ", \"exit_code\": [null], "
			   "\"worker_pid\": [null]");
}

/* JSON within a string of JSON. */
static void elastic_event_put_metadata(struct buf *b, const struct json *j,
				       const struct elastic_round *r,
				       const struct elastic_worker *w)
{
	struct buf text = BUF_INIT(ELASTIC_EVENT_MAX);

	if (r->has_begun)
		buf_printf(&text, "{\"group_world_size\": %u, "
			   "\"entry_point\": ", r->nnodes);
	else
		buf_printf(&text, "{\"group_world_size\": null, "
			   "\"entry_point\": ");
	json_put_text(&text, j, SLICE_STR(elastic_event_name(r->program)));
	if (w)
		elastic_event_put_worker(&text, w);
	buf_printf(&text, "}");
	json_put_text(b, j, SLICE(text.data, text.len));
	if (text.failed)
		b->failed = text.failed;
	buf_release(&text);
}

static void elastic_event_put_ranks(struct buf *b,
				    const struct elastic_round *r,
				    const struct elastic_worker *w)
{
	if (w)
		buf_printf(b, ", \"global_rank\": %u", w->rank);
	else
		buf_printf(b, ", \"global_rank\": null");
	if (r->has_begun)
		buf_printf(b, ", \"group_rank\": %u", r->node_rank);
	else
		buf_printf(b, ", \"group_rank\": null");
	if (w)
		buf_printf(b, ", \"worker_id\": \"%d\"", (int)w->pid);
	else
		buf_printf(b, ", \"worker_id\": null");
}

static void elastic_event_put_field(struct buf *b, const struct json *j,
				    const char *name, const char *text)
{
	buf_printf(b, ", \"%s\": ", name);
	json_put_text(b, j, SLICE_STR(text));
}

int elastic_event_put(struct buf *out, const struct elastic_round *r,
		      const struct elastic_event *v, struct err *e)
{
	const struct json *j = json_load(e);
	const struct elastic_worker *w = v->worker;

	if (!j)
		return ERR_SYSTEM;
	buf_printf(out, "{\"name\": \"torchelastic.worker.status.%s\", "
		   "\"source\": \"%s\", \"timestamp\": %lld, "
		   "\"metadata\": {\"run_id\": ", v->state,
		   w ? "WORKER" : "AGENT", (long long)v->now_ms);
	json_put_text(out, j, SLICE_STR(r->run_id));
	elastic_event_put_ranks(out, r, w);
	elastic_event_put_field(out, j, "role",
				w && w->role ? w->role : r->role);
	elastic_event_put_field(out, j, "hostname", r->host);
	elastic_event_put_field(out, j, "state", v->state);
	buf_printf(out, ", \"total_run_time\": %llu",
		   (unsigned long long)v->ran_s);
	elastic_event_put_field(out, j, "rdzv_backend", r->backend);
	buf_printf(out, ", \"raw_error\": ");
	if (v->error.len)
		json_put_text(out, j, v->error);
	else
		buf_printf(out, "null");
	buf_printf(out, ", \"metadata\": ");
	elastic_event_put_metadata(out, j, r, w);
	buf_printf(out, ", \"agent_restarts\": %u, \"duration_ms\": ",
		   r->attempt);
	if (v->duration_ms < 0)
		buf_printf(out, "null}}\n");
	else
		buf_printf(out, "%.3f}}\n", v->duration_ms);
	return out->failed ? err_no_memory(e, "an event") : 0;
}

int elastic_event_put_error(struct buf *out, struct slice text, struct err *e)
{
	const struct json *j = json_load(e);

	if (!j)
		return ERR_SYSTEM;
	buf_printf(out, "{\"message\": ");
	json_put_text(out, j, text);
	buf_printf(out, "}");
	return out->failed ? err_no_memory(e, "an event") : 0;
}

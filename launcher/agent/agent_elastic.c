/* agent_elastic.c: prints torchrun's events (--event-log-handler console). */
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/agent/agent_internal.h"
#include "launcher/failure/elastic_event.h"

static int64_t agent_elastic_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct elastic_round agent_elastic_round(const struct agent *a)
{
	const char *program = a->parts ? a->parts->program.path : NULL;

	return (struct elastic_round){
		.run_id = a->rdzv->job, .host = a->failure.host,
		.role = a->rdzv->role, .backend = a->options->backend,
		.program = program ? program : "",
		.has_begun = a->world_size != 0, .node_rank = a->node_rank,
		.nnodes = a->nnodes, .attempt = a->attempt,
	};
}

static struct elastic_worker agent_elastic_worker(const struct agent *a,
						  const struct worker *w)
{
	return (struct elastic_worker){
		.rank = worker_rank(w), .local_rank = w->local_rank,
		.role_rank = a->elastic.role_base_rank + w->local_rank,
		.role_world_size = a->elastic.role_world_size,
		.pid = w->pid,
	};
}

static void agent_elastic_print(struct agent *a, const struct elastic_round *r,
				struct elastic_event *v)
{
	struct buf line = BUF_INIT(ELASTIC_EVENT_MAX);
	struct err e = ERR_INIT;

	v->now_ms = agent_elastic_now_ms();
	if (elastic_event_put(&line, r, v, &e) == 0)
		output_print(&a->output, line.data, line.len);
	else if (!a->elastic.has_failed++)
		log_warn("--event-log-handler: no events: %s", e.text);
	buf_release(&line);
}

static void agent_elastic_print_worker(struct agent *a, const struct worker *w,
				       struct elastic_event *v)
{
	const struct roles *roles = a->options->failure.roles;
	struct elastic_round r = agent_elastic_round(a);
	struct elastic_worker worker = agent_elastic_worker(a, w);
	uint32_t role;

	if (v->error.len) { /* only a failure has one */
		worker.has_failed = 1;
		worker.exit_code = w->signal ? -w->signal : w->code;
	}
	if (roles) {
		role = roles_find(roles, worker.rank, &worker.role_rank);
		worker.role = roles->list[role].name;
		worker.role_world_size =
			roles_size(roles, role, a->world_size);
		if (a->parts && a->parts->each)
			r.program = a->parts->each[role].program.path;
	}
	v->worker = &worker;
	agent_elastic_print(a, &r, v);
}

/* As other loggers of INFO, it is silenced by LOGLEVEL. */
static int agent_elastic_is_on(const struct agent *a)
{
	return a->options->prints_events && log_enabled(LOG_INFO);
}

void agent_record_rendezvous(struct agent *a, const struct wire_start *start)
{
	struct elastic_round r;
	struct elastic_event v = {.state = "RENDEZVOUS"};

	if (!a->elastic.began_ns)
		a->elastic.began_ns = clock_ns();
	a->elastic.role_base_rank = start->role_base_rank;
	a->elastic.role_world_size = start->role_world_size;
	if (!agent_elastic_is_on(a))
		return;
	r = agent_elastic_round(a);
	r.has_begun = 1;
	r.node_rank = start->node_rank;
	r.nnodes = start->nnodes;
	r.attempt = start->attempt;
	v.duration_ms = (double)(clock_ns() - a->times.joined) / 1e6;
	agent_elastic_print(a, &r, &v);
}

void agent_record_starts(struct agent *a)
{
	for (uint32_t i = 0; agent_elastic_is_on(a) && i < a->group.n; i++) {
		struct elastic_event v = {.state = "START", .duration_ms = -1};

		agent_elastic_print_worker(a, &a->group.workers[i], &v);
	}
}

void agent_record_verdict(struct agent *a, const struct wire_end *end)
{
	a->elastic.saw_end = !a->stop.level &&
			     (!end || end->verdict == WIRE_SUCCESS ||
			      end->rank >= 0);
}

/* What the worker reported, or else the server's text about it. */
static void agent_elastic_put_error(const struct agent *a,
				    const struct worker *w, struct buf *out)
{
	const struct failure *f = &a->failure;
	char path[LOGDIR_PATH_MAX];
	struct slice text = SLICE_STR("<NONE>");

	logdir_error_file(&a->logdir, w->local_rank, path);
	if (error_file_read(path, out, NULL) == 1)
		return;
	buf_reset(out);
	if (f->has_end && f->end.rank >= 0 &&
	    (uint32_t)f->end.rank == worker_rank(w))
		text = f->end.text;
	(void)elastic_event_put_error(out, text, NULL);
}

static void agent_elastic_record_end(struct agent *a, const struct worker *w)
{
	struct buf error = BUF_INIT(ELASTIC_EVENT_MAX);
	struct elastic_event v = {
		.state = "SUCCEEDED", .duration_ms = -1,
		.ran_s = (clock_ns() - a->elastic.began_ns) / 1000000000,
	};

	if (w->stopped) {
		v.state = "TERMINATED";
	} else if (w->code || w->signal) {
		v.state = "FAILED";
		agent_elastic_put_error(a, w, &error);
	}
	v.error = SLICE(error.data, error.failed ? 0 : error.len);
	agent_elastic_print_worker(a, w, &v);
	buf_release(&error);
}

void agent_record_ends(struct agent *a)
{
	const struct elastic_round r = agent_elastic_round(a);
	struct elastic_event v = {.state = "SUCCEEDED", .duration_ms = -1};

	if (!agent_elastic_is_on(a))
		return;
	for (uint32_t i = 0; a->failure.round_ran && i < a->group.n; i++) {
		const struct worker *w = &a->group.workers[i];

		if (w->pid > 0 && !w->running)
			agent_elastic_record_end(a, w);
	}
	if (a->elastic.began_ns)
		v.ran_s = (clock_ns() - a->elastic.began_ns) / 1000000000;
	if (!a->elastic.saw_end) {
		v.state = "FAILED";
		v.error = SLICE_STR(a->shutdown.cause);
	}
	agent_elastic_print(a, &r, &v);
}

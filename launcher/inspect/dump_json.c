/* dump_json.c: `ddprun dump --json`; docs/man/ddprun-dump.1 has the keys. */
#include <stdio.h>

#include "base/json.h"
#include "base/sock.h"
#include "launcher/inspect/backtrace.h"
#include "launcher/inspect/dump.h"
#include "launcher/inspect/thread_snapshot.h"
#include "launcher/inspect/torch_calls.h"

enum { VERSION = 1, MISSING_MAX = 4096 };

struct dump_json_threads {
	const struct json *j;
	cJSON *list;
	struct python_threads python;
};

static void dump_json_add_text(const struct json *j, cJSON *to,
			       const char *name, const char *text)
{
	json_add_text_or_null(j, to, name, SLICE_STR(text));
}

static double dump_json_seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)((to - from) / 1000000) / 1000 : 0;
}

static cJSON *dump_json_call(const struct json *j,
			     const struct local_workers *l,
			     const struct local_worker *w,
			     const struct flight_op *op)
{
	static const char *const states[] = {
		[FLIGHT_ENTERED] = "under_way", [FLIGHT_DONE] = "done",
		[FLIGHT_FAILED] = "failed",
	};
	char text[FLIGHT_CALL_MAX];
	cJSON *to = j->object();

	dump_json_add_text(j, to, "call", flight_op_text(w->view, op, text));
	j->add_number(to, "number", (double)op->call.number);
	j->add_number(to, "communicator", op->comm);
	j->add_string(to, "state", states[op->state]);
	j->add_number(to, "seconds_ago", dump_json_seconds(op->ns, l->now_ns));
	return to;
}

static void dump_json_add_calls(const struct json *j, cJSON *to,
				const struct local_workers *l, size_t i,
				long last)
{
	const struct local_worker *w = &l->workers[i];
	const struct flight_op *op =
		w->view ? flight_oldest_open(w->view) : NULL;
	static uint32_t ranks[MISSING_MAX];
	uint32_t elsewhere;
	size_t n = local_workers_missing(l, i, ranks, MISSING_MAX, &elsewhere);
	cJSON *list;

	if (op)
		j->add_item(to, "in", dump_json_call(j, l, w, op));
	else
		j->add_null(to, "in");
	list = j->add_array(to, "not_there");
	for (size_t k = 0; k < n && k < MISSING_MAX; k++)
		j->append(list, j->number(ranks[k]));
	j->add_number(to, "not_known", elsewhere);
	list = j->add_array(to, "last_calls");
	for (int k = 0; w->view && k < w->view->n; k++) {
		if (k >= w->view->n - last)
			j->append(list,
				  dump_json_call(j, l, w, &w->view->ops[k]));
	}
}

static cJSON *dump_json_torch_call(const struct json *j,
				   const struct torch_calls *t,
				   const struct torch_call *c)
{
	cJSON *to = j->object();

	dump_json_add_text(j, to, "call", c->words);
	dump_json_add_text(j, to, "library", c->library);
	dump_json_add_text(j, to, "where", c->where);
	j->add_number(to, "number", (double)c->number);
	j->add_string(to, "state",
		      c->state == FLIGHT_DONE ? "done" : "under_way");
	j->add_number(to, "seconds_ago", dump_json_seconds(c->ns, t->unix_ns));
	return to;
}

/* null: PyTorch cannot be asked. */
static void dump_json_add_torch(const struct json *j, cJSON *to,
				const struct torch_calls *t)
{
	cJSON *calls = NULL;

	if (t && t->has_pipe && !t->why.text[0])
		calls = j->add_array(to, "pytorch_calls");
	else
		j->add_null(to, "pytorch_calls");
	for (size_t i = 0; calls && i < t->n; i++)
		j->append(calls, dump_json_torch_call(j, t, &t->calls[i]));
	dump_json_add_text(j, to, "no_pytorch_calls", t ? t->why.text : "");
}

/* "python": null for a thread without Python frames. */
static void dump_json_add_python(const struct json *j, cJSON *to,
				 const struct python_thread *t)
{
	cJSON *list;

	if (!t) {
		j->add_null(to, "python");
		return;
	}
	j->add_bool(to, "holds_gil", t->holds_gil);
	j->add_bool(to, "changed", t->has_changed);
	list = j->add_array(to, "python");
	for (int i = 0; i < t->n; i++) {
		cJSON *frame = j->object();

		dump_json_add_text(j, frame, "function", t->frames[i].function);
		dump_json_add_text(j, frame, "file", t->frames[i].file);
		j->add_number(frame, "line", t->frames[i].line);
		j->append(list, frame);
	}
}

static void dump_json_add_thread(void *arg, const struct backtrace_thread *t)
{
	const struct dump_json_threads *all = arg;
	const struct json *j = all->j;
	cJSON *to = j->object(), *list;

	j->add_number(to, "tid", t->tid);
	dump_json_add_text(j, to, "name", t->name);
	dump_json_add_text(j, to, "error", t->n ? "" : t->why.text);
	dump_json_add_python(j, to, python_threads_of(&all->python, t->tid));
	list = j->add_array(to, "frames");
	for (int i = 0; i < t->n; i++) {
		cJSON *frame = j->object();
		char pc[24];

		snprintf(pc, sizeof(pc), "0x%llx",
			 (unsigned long long)t->frames[i].pc);
		j->add_string(frame, "pc", pc);
		dump_json_add_text(j, frame, "function", t->frames[i].function);
		dump_json_add_text(j, frame, "module", t->frames[i].module);
		dump_json_add_text(j, frame, "source", t->frames[i].source);
		j->append(list, frame);
	}
	j->append(all->list, to);
}

static void dump_json_add_stacks(const struct json *j, cJSON *to, pid_t pid)
{
	struct dump_json_threads threads = {.j = j};
	struct err e = ERR_INIT, no_python = ERR_INIT;

	threads.list = j->add_array(to, "threads");
	if (pid) {
		python_threads_read(&threads.python, pid, &no_python);
		backtrace_process(pid, dump_json_add_thread, &threads, &e);
	}
	dump_json_add_text(j, to, "no_stacks", e.text);
	dump_json_add_text(j, to, "no_python", no_python.text);
	python_threads_release(&threads.python);
}

static cJSON *dump_json_worker(const struct json *j,
			       const struct local_workers *l, size_t i,
			       const struct dump_options *o,
			       const struct torch_calls *torch)
{
	static const char *const recorders[] = {
		[RECORDER_KNOWN] = "known", [RECORDER_SILENT] = "silent",
		[RECORDER_DAMAGED] = "damaged",
	};
	const struct local_worker *w = &l->workers[i];
	cJSON *to = j->object();

	j->add_number(to, "rank", w->rank);
	j->add_number(to, "local_rank", w->local_rank);
	j->add_number(to, "pid", w->program);
	j->add_string(to, "state", local_worker_state(w->state));
	j->add_number(to, "cpu_seconds", w->cpu_s);
	j->add_string(to, "recorder", recorders[w->recorder]);
	dump_json_add_calls(j, to, l, i, o->last);
	dump_json_add_torch(j, to, torch ? &torch[i] : NULL);
	dump_json_add_stacks(j, to, o->no_stacks || !w->state || w->state == 'Z'
					     ? 0 : w->program);
	return to;
}

static cJSON *dump_json_job(const struct json *j, const struct flight_file *f)
{
	cJSON *to = j->object();

	dump_json_add_text(j, to, "job", f->job);
	j->add_number(to, "round", f->round);
	j->add_number(to, "attempt", f->attempt);
	j->add_number(to, "world_size", f->world_size);
	return to;
}

static cJSON *dump_json_page(const struct json *j,
			     const struct local_workers *l,
			     const struct dump_options *o)
{
	struct torch_calls *torch = torch_calls_read(l, (size_t)o->last);
	cJSON *all, *jobs, *job, *workers = NULL;
	char host[SOCK_HOST_MAX];

	all = j->object();
	sock_host_name(host);
	j->add_number(all, "version", VERSION);
	dump_json_add_text(j, all, "host", host);
	jobs = j->add_array(all, "jobs");
	for (size_t i = 0; i < l->n; i++) {
		const struct local_worker *w = &l->workers[i];

		if (!i || !local_worker_same_job(w, w - 1)) {
			job = dump_json_job(j, w->job);
			workers = j->add_array(job, "workers");
			j->append(jobs, job);
		}
		j->append(workers, dump_json_worker(j, l, i, o, torch));
	}
	torch_calls_free(torch, l);
	return all;
}

int dump_put_json(struct buf *out, const struct local_workers *l,
		  const struct dump_options *o, struct err *e)
{
	const struct json *j = json_load(e);

	return j ? json_put(out, j, dump_json_page(j, l, o), e) : ERR_SYSTEM;
}

/* A page that was cut is not JSON, and becomes null. */
static cJSON *dump_json_node(const struct json *j, const struct dump_node *n,
			     const char *job)
{
	cJSON *to = j->object(), *page = NULL;

	dump_json_add_text(j, to, "job", job);
	j->add_number(to, "node_rank", n->node_rank);
	dump_json_add_text(j, to, "host", n->host);
	j->add_bool(to, "answered", n->answered);
	j->add_number(to, "silent_seconds", (double)n->silent_ms / 1000);
	dump_json_add_text(j, to, "error", n->text);
	if (n->page.len)
		page = j->parse(n->page.data, n->page.len);
	if (page)
		j->add_item(to, "page", page);
	else
		j->add_null(to, "page");
	return to;
}

int dump_put_nodes_json(struct buf *out, const struct dump_query *asked,
			size_t n, const struct local_workers *l,
			const struct buf *findings,
			const struct dump_options *o, struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all, *nodes;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", VERSION);
	nodes = j->add_array(all, "nodes");
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < asked[i].n; k++)
			j->append(nodes, dump_json_node(j, &asked[i].nodes[k],
							asked[i].job));
	}
	json_append_lines(j, j->add_array(all, "findings"),
			  SLICE(findings->data, findings->len));
	if (l->n)
		j->add_item(all, "here", dump_json_page(j, l, o));
	else
		j->add_null(all, "here");
	return json_put(out, j, all, e);
}

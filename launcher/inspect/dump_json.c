/* dump_json.c: `ddprun dump --json`; docs/ddprun.1 has the names. */
#include <errno.h>
#include <stdio.h>

#include "base/sock.h"
#include "base/utf8.h"
#include "launcher/inspect/dump.h"
#include "base/json.h"
#include "launcher/inspect/stack.h"

enum { VERSION = 1, TEXT_MAX = 64 << 10, MISSING_MAX = 4096 };

struct to {
	const struct json *j;
	cJSON *list;
};

static void add_text(const struct json *j, cJSON *to, const char *name,
		     const char *text)
{
	struct buf clean = BUF_INIT(TEXT_MAX);

	utf8_put(&clean, SLICE_STR(text));
	buf_put(&clean, "", 1);
	if (clean.failed || !*text)
		j->add_null(to, name);
	else
		j->add_string(to, name, clean.data);
	buf_release(&clean);
}

static double seconds(uint64_t from, uint64_t to)
{
	return to > from ? (double)((to - from) / 1000000) / 1000 : 0;
}

static cJSON *call_of(const struct json *j, const struct look *l,
		      const struct look_worker *w, const struct flight_op *op)
{
	static const char *const states[] = {
		[FLIGHT_ENTERED] = "under_way", [FLIGHT_DONE] = "done",
		[FLIGHT_FAILED] = "failed",
	};
	char text[FLIGHT_CALL_MAX];
	cJSON *to = j->object();

	add_text(j, to, "call", flight_op_text(w->view, op, text));
	j->add_number(to, "number", (double)op->call.number);
	j->add_number(to, "communicator", op->comm);
	j->add_string(to, "state", states[op->state]);
	j->add_number(to, "seconds_ago", seconds(op->ns, l->now_ns));
	return to;
}

static void add_calls(const struct json *j, cJSON *to, const struct look *l,
		      size_t i, long last)
{
	const struct look_worker *w = &l->workers[i];
	const struct flight_op *op = w->view ? flight_under_way(w->view) : NULL;
	static uint32_t ranks[MISSING_MAX];
	uint32_t elsewhere;
	size_t n = look_missing(l, i, ranks, MISSING_MAX, &elsewhere);
	cJSON *list;

	if (op)
		j->add_item(to, "in", call_of(j, l, w, op));
	else
		j->add_null(to, "in");
	list = j->add_array(to, "not_there");
	for (size_t k = 0; k < n && k < MISSING_MAX; k++)
		j->append(list, j->number(ranks[k]));
	j->add_number(to, "not_known", elsewhere);
	list = j->add_array(to, "last_calls");
	for (int k = 0; w->view && k < w->view->n; k++) {
		if (k >= w->view->n - last)
			j->append(list, call_of(j, l, w, &w->view->ops[k]));
	}
}

static void add_thread(void *arg, const struct stack_thread *t)
{
	const struct to *all = arg;
	const struct json *j = all->j;
	cJSON *to = j->object(), *list;

	j->add_number(to, "tid", t->tid);
	add_text(j, to, "name", t->name);
	add_text(j, to, "error", t->n ? "" : t->why.text);
	list = j->add_array(to, "frames");
	for (int i = 0; i < t->n; i++) {
		cJSON *frame = j->object();
		char pc[24];

		snprintf(pc, sizeof(pc), "0x%llx",
			 (unsigned long long)t->frames[i].pc);
		j->add_string(frame, "pc", pc);
		add_text(j, frame, "function", t->frames[i].function);
		add_text(j, frame, "module", t->frames[i].module);
		add_text(j, frame, "source", t->frames[i].source);
		j->append(list, frame);
	}
	j->append(all->list, to);
}

static cJSON *worker_of(const struct json *j, const struct look *l, size_t i,
			const struct dump_options *o)
{
	static const char *const recorders[] = {
		[LOOK_KNOWN] = "known", [LOOK_SILENT] = "silent",
		[LOOK_GARBAGE] = "damaged",
	};
	const struct look_worker *w = &l->workers[i];
	struct err e = ERR_INIT;
	struct to threads = {j, NULL};
	cJSON *to = j->object();

	j->add_number(to, "rank", w->rank);
	j->add_number(to, "local_rank", w->local_rank);
	j->add_number(to, "pid", w->program);
	j->add_string(to, "state", look_state(w->state));
	j->add_number(to, "cpu_seconds", w->cpu_s);
	j->add_string(to, "recorder", recorders[w->recorder]);
	add_calls(j, to, l, i, o->last);
	threads.list = j->add_array(to, "threads");
	if (!o->no_stacks && w->state && w->state != 'Z')
		stack_walk(w->program, add_thread, &threads, &e);
	add_text(j, to, "no_stacks", e.text);
	return to;
}

static cJSON *job_of(const struct json *j, const struct flight_file *f)
{
	cJSON *to = j->object();

	add_text(j, to, "job", f->job);
	j->add_number(to, "round", f->round);
	j->add_number(to, "attempt", f->attempt);
	j->add_number(to, "world_size", f->world_size);
	return to;
}

/* And frees it. */
static int print(struct buf *out, const struct json *j, cJSON *all,
		 struct err *e)
{
	char *text = j->print_pretty(all);

	j->release(all);
	if (!text)
		return err_set(e, -ENOMEM, "out of memory for the dump");
	buf_put(out, text, strlen(text));
	buf_put(out, "\n", 1);
	j->free(text);
	return 0;
}

static cJSON *page_of(const struct json *j, const struct look *l,
		      const struct dump_options *o)
{
	cJSON *all, *jobs, *job, *workers = NULL;
	char host[SOCK_HOST_MAX];

	all = j->object();
	sock_host_name(host);
	j->add_number(all, "version", VERSION);
	add_text(j, all, "host", host);
	jobs = j->add_array(all, "jobs");
	for (size_t i = 0; i < l->n; i++) {
		const struct look_worker *w = &l->workers[i];

		if (!i || !look_same_job(w, w - 1)) {
			job = job_of(j, w->job);
			workers = j->add_array(job, "workers");
			j->append(jobs, job);
		}
		j->append(workers, worker_of(j, l, i, o));
	}
	return all;
}

int dump_put_json(struct buf *out, const struct look *l,
		  const struct dump_options *o, struct err *e)
{
	const struct json *j = json_load(e);

	return j ? print(out, j, page_of(j, l, o), e) : ERR_SYSTEM;
}

/* A page that is not whole is no JSON. */
static cJSON *node_of(const struct json *j, const struct asked_node *n,
		      const char *job)
{
	cJSON *to = j->object(), *page = NULL;

	add_text(j, to, "job", job);
	j->add_number(to, "node_rank", n->node_rank);
	add_text(j, to, "host", n->host);
	j->add_bool(to, "answered", n->answered);
	j->add_number(to, "silent_seconds", (double)n->silent_ms / 1000);
	add_text(j, to, "error", n->text);
	if (n->page.len)
		page = j->parse(n->page.data, n->page.len);
	if (page)
		j->add_item(to, "page", page);
	else
		j->add_null(to, "page");
	return to;
}

int dump_put_nodes_json(struct buf *out, const struct ask *asked, size_t n,
			const struct look *l, const struct dump_options *o,
			struct err *e)
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
			j->append(nodes, node_of(j, &asked[i].nodes[k],
						 asked[i].job));
	}
	if (l->n)
		j->add_item(all, "here", page_of(j, l, o));
	else
		j->add_null(all, "here");
	return print(out, j, all, e);
}

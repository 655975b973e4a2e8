/* dump.c: the subcommand, and its output as text. */
#include "launcher/inspect/dump.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/failure/exit_code.h"
#include "launcher/inspect/backtrace.h"
#include "launcher/inspect/control_client.h"
#include "launcher/inspect/merge.h"
#include "launcher/inspect/rank_calls.h"
#include "launcher/inspect/stragglers.h"
#include "launcher/inspect/thread_snapshot.h"
#include "launcher/inspect/torch_calls.h"
#include "launcher/watch/unanswered.h"

enum {
	TEXT_MAX = 1 << 30,
	MISSING_SHOWN = 8,
	QUERIES_MAX = 64, /* one for each job */
};

#define FIELD(name) .offset = offsetof(struct dump_options, name)

const struct option_spec dump_options[] = {
	CONTROL_CLIENT_OPTIONS(struct dump_options,
			       "Ask this rendezvous server for the job (--job, "
			       "or 'none'): use it on a host that runs no "
			       "ddprun."),
	{.name = "timeout", .kind = OPTION_DOUBLE, FIELD(timeout_s),
	 .min = 0.1, .max = WIRE_DUMP_MAX_MS / 1000, .arg = "SECONDS",
	 .help = "How long to wait for other nodes (10)."},
	{.name = "here", .kind = OPTION_FLAG, FIELD(here),
	 .help = "Only workers of this host."},
	{.name = "agent", .kind = OPTION_INT, FIELD(agent), .min = 1,
	 .max = INT_MAX, .arg = "PID",
	 .help = "Only workers of this ddprun, on this host."},
	{.name = "all-nodes", .kind = OPTION_FLAG, FIELD(all_nodes),
	 .help = "With --agent: those of its job on other nodes as well."},
	{.name = "last", .kind = OPTION_INT, FIELD(last), .min = 0,
	 .max = FLIGHT_ENTRIES, .arg = "N",
	 .help = "Show each worker's last N calls (5)."},
	{.name = "no-stacks", .kind = OPTION_FLAG, FIELD(no_stacks),
	 .help = "Show no stacks: do not stop any worker, even for a moment."},
	{.name = "merge", .kind = OPTION_STRING, FIELD(merge), .arg = "DIR",
	 .help = "Read the calls that ddprun and PyTorch recorded in the files "
		 "below DIR."},
	CONTROL_CLIENT_LAST_OPTIONS(struct dump_options),
};

static const char usage[] = "usage: ddprun dump [OPTIONS]\n"
			    "\n"
			    "Shows what the workers of your jobs are doing: "
			    "those that your ddprun processes\n"
			    "run on this host, and those of the same jobs on "
			    "all other nodes. For each worker:\n"
			    "the libddp call that it is in, for how long, and "
			    "which ranks it waits for; its\n"
			    "last calls; and the native stacks of its threads. "
			    "The workers keep running.\n"
			    "Workers that mpirun, srun or torchrun started are "
			    "shown on their own host only.\n"
			    "With --merge it asks no job, and compares what "
			    "the ranks of an ended job\n"
			    "recorded.\n"
			    "\n";

/* ---- As text ---- */

static void dump_put_missing(struct buf *out, const struct local_workers *l,
			     size_t i)
{
	uint32_t ranks[MISSING_SHOWN], elsewhere;
	size_t n =
		local_workers_missing(l, i, ranks, MISSING_SHOWN, &elsewhere);

	for (size_t k = 0; k < n && k < MISSING_SHOWN; k++)
		buf_printf(out, "%s%u",
			   k	   ? ", "
			   : n > 1 ? "; missing: ranks "
				   : "; missing: rank ",
			   ranks[k]);
	if (n > MISSING_SHOWN)
		buf_printf(out, " and %zu more", n - MISSING_SHOWN);
	if (elsewhere)
		buf_printf(out, "; unknown: %u rank%s%s", elsewhere,
			   elsewhere == 1 ? "" : "s",
			   l->workers[i].job->nodes > 1 ? " of other nodes"
							: "");
}

static void dump_put_current_call(struct buf *out,
				  const struct local_workers *l, size_t i,
				  struct unanswered *u)
{
	const struct local_worker *w = &l->workers[i];
	const struct flight_op *op =
		w->view ? flight_oldest_open(w->view) : NULL;
	char text[FLIGHT_TEXT_MAX], ago[16], unanswered[UNANSWERED_WORDS_MAX];

	if (w->recorder == RECORDER_DAMAGED)
		buf_printf(out, "  its flight recorder is damaged, or of "
			   "another version of libddp\n");
	else if (!w->view || !w->view->n)
		buf_printf(out, "  no libddp call\n");
	else if (op) {
		flight_op_text(w->view, op, text);
		buf_printf(out, "  in %s for %s", text,
			   flight_time_text(op->ns, l->now_ns, ago));
		dump_put_missing(out, l, i);
		buf_printf(out, "%s\n",
			   unanswered_words(u, w->program, unanswered));
	} else
		buf_printf(out, "  %s\n", flight_last_text(w->view, l->now_ns,
							   text));
}

static void dump_put_last_calls(struct buf *out, const struct local_workers *l,
				const struct local_worker *w, long last)
{
	static const char *const states[] = {
		[FLIGHT_ENTERED] = "under way", [FLIGHT_DONE] = "done",
		[FLIGHT_FAILED] = "failed",
	};
	char text[FLIGHT_CALL_MAX], ago[16];
	int from = 0;

	if (!w->view || !w->view->n || !last)
		return;
	if (w->view->n > last)
		from = w->view->n - (int)last;
	buf_printf(out, "  last calls:\n");
	for (int i = from; i < w->view->n; i++) {
		const struct flight_op *op = &w->view->ops[i];

		flight_time_text(op->ns, l->now_ns, ago);
		buf_printf(out, "    %8s ago  %-9s  %s\n", ago,
			   states[op->state],
			   flight_op_text(w->view, op, text));
	}
}

struct dump_stacks {
	struct buf *out;
	struct python_threads python;
};

static void dump_put_thread(void *arg, const struct backtrace_thread *t)
{
	const struct dump_stacks *s = arg;
	const struct python_thread *python =
		python_threads_of(&s->python, t->tid);
	struct buf *out = s->out;

	buf_printf(out, "  thread %d (%s)%s%s\n", (int)t->tid, t->name,
		   t->n ? "" : ": ", t->n ? "" : t->why.text);
	if (python)
		python_threads_put(out, python);
	for (int i = 0; i < t->n; i++) {
		const struct backtrace_frame *x = &t->frames[i];

		buf_printf(out, "    #%-2d %s", i,
			   x->function[0] ? x->function : "?");
		if (x->source[0])
			buf_printf(out, " at %s", x->source);
		buf_printf(out, " (%s 0x%llx)\n",
			   x->module[0] ? x->module : "no file",
			   (unsigned long long)x->pc);
	}
	if (t->n == BACKTRACE_FRAMES_MAX)
		buf_printf(out, "    more frames follow\n");
}

/* Without native stacks, those of Python alone. */
static void dump_put_python(struct buf *out, const struct python_threads *t)
{
	for (size_t i = 0; i < t->n; i++) {
		buf_printf(out, "  thread %d\n", (int)t->list[i].tid);
		python_threads_put(out, &t->list[i]);
	}
}

static void dump_put_stacks(struct buf *out, pid_t pid)
{
	struct dump_stacks s = {.out = out};
	struct err e = ERR_INIT;

	if (python_threads_read(&s.python, pid, &e) < 0 && e.code == ERR_DATA)
		buf_printf(out, "  %s\n", e.text);
	if (backtrace_process(pid, dump_put_thread, &s, &e) < 0) {
		buf_printf(out, "  %s\n", e.text);
		dump_put_python(out, &s.python);
	}
	python_threads_release(&s.python);
}

static void dump_put_worker(struct buf *out, const struct local_workers *l,
			    size_t i, const struct dump_options *o,
			    struct unanswered *u,
			    const struct torch_calls *torch)
{
	const struct local_worker *w = &l->workers[i];

	buf_printf(out, "rank %u (local rank %u), pid %d, %s", w->rank,
		   w->local_rank, (int)w->program,
		   local_worker_state(w->state));
	if (w->state)
		buf_printf(out, ", %.1f s of CPU", w->cpu_s);
	buf_put(out, "\n", 1);
	dump_put_current_call(out, l, i, u);
	dump_put_last_calls(out, l, w, o->last);
	if (torch)
		torch_calls_put(out, &torch[i]);
	if (!o->no_stacks && w->state && w->state != 'Z')
		dump_put_stacks(out, w->program);
}

static uint32_t dump_count_workers(const struct local_workers *l, size_t first)
{
	uint32_t n = 0;

	for (size_t i = first; i < l->n; i++)
		n += local_worker_same_job(&l->workers[first], &l->workers[i]);
	return n;
}

static void dump_put_text(struct buf *out, const struct local_workers *l,
			  const struct dump_options *o)
{
	struct torch_calls *torch = torch_calls_read(l, (size_t)o->last);
	struct unanswered u = {.net = 0};

	for (size_t i = 0; i < l->n; i++) {
		const struct local_worker *w = &l->workers[i];

		if (!i || !local_worker_same_job(w, w - 1))
			buf_printf(out, "%sjob '%s', attempt %u: %u of %u "
				   "ranks are on %s\n", i ? "\n" : "",
				   w->job->job, w->job->attempt + 1,
				   dump_count_workers(l, i), w->job->world_size,
				   w->job->host);
		dump_put_worker(out, l, i, o, &u, torch);
	}
	torch_calls_free(torch, l);
}

/* ---- The subcommand ---- */

static int dump_log_nothing(const struct dump_options *o)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	if (o->job)
		log_error("error: none of your ddpruns runs workers of job "
			  "'%s' on %s",
			  o->job, host);
	else
		log_error("error: none of your ddpruns runs workers on %s, and "
			  "none of your other programs there uses libddp",
			  host);
	return CONTROL_CLIENT_NOTHING;
}

/* ---- The other nodes ---- */

struct dump {
	struct dump_options o;
	struct local_workers local; /* at the second moment */
	struct rank_moments before;
	struct dump_query queries[QUERIES_MAX];
	size_t nqueries;
};

static int dump_query_server(struct dump *d, const char *server,
			     const char *job, const struct auth *auth,
			     struct err *e)
{
	const struct wire_dump m = {
		.json = (uint8_t)d->o.json,
		.no_stacks = (uint8_t)d->o.no_stacks,
		.last = (uint32_t)d->o.last,
		.timeout_ms = (uint32_t)(d->o.timeout_s * 1000),
	};
	struct dump_query *a = &d->queries[d->nqueries];
	struct endpoint at;
	int rc = endpoint_parse(&at, server, CONTROL_CLIENT_PORT, e);

	if (rc < 0)
		return rc;
	rc = dump_query_init(a, &at, job, auth, &m, e);
	if (rc < 0)
		dump_query_release(a);
	else
		d->nqueries++;
	return rc;
}

/* How many workers, from i on, belong to the same job. */
static size_t dump_same_job_run(const struct local_workers *l, size_t i)
{
	size_t n = 1;

	while (i + n < l->n &&
	       local_worker_same_job(&l->workers[i], &l->workers[i + n]))
		n++;
	return n;
}

static int dump_query_job(struct dump *d, const struct flight_file *job,
			  struct err *e)
{
	struct auth auth;
	int rc = control_client_job_auth(&auth, job, e);

	if (rc == 0)
		rc = dump_query_server(d, job->server, job->job, &auth, e);
	auth_wipe(&auth);
	return rc;
}

/* Asks for the jobs that other nodes take part in. The answers include the
 * workers of this host, so those are not shown twice. */
static void dump_query_jobs(struct dump *d)
{
	struct err e = ERR_INIT;
	size_t kept = 0;

	while (kept < d->local.n) {
		const struct flight_file *job = d->local.workers[kept].job;
		size_t n = dump_same_job_run(&d->local, kept);

		if (job->nodes > 1 && job->server[0] &&
		    d->nqueries < QUERIES_MAX) {
			if (dump_query_job(d, job, &e) == 0) {
				local_workers_remove(&d->local, kept, n);
				continue;
			}
			log_warn("cannot query the other nodes of job '%s': "
				 "%s; showing this host only",
				 job->job, e.text);
		}
		kept += n;
	}
}

static void dump_put_node(struct buf *out, const struct dump_node *n,
			  const struct dump_options *o)
{
	char name[SOCK_HOST_MAX + 32];

	if (n->node_rank < 0)
		snprintf(name, sizeof(name), "a node (%s)", n->host);
	else
		snprintf(name, sizeof(name), "node %d (%s)", (int)n->node_rank,
			 n->host);
	buf_put(out, n->page.data, n->page.len);
	if (n->page.len && n->page.data[n->page.len - 1] != '\n')
		buf_put(out, "\n", 1);
	if (n->answered && n->text[0])
		buf_printf(out, "%s: %s\n", name, n->text);
	else if (!n->answered && n->text[0])
		buf_printf(out, "%s did not answer: %s\n", name, n->text);
	else if (!n->answered)
		buf_printf(out, "%s did not answer within %g s; the server has "
			   "not heard from it for %.1f s\n", name,
			   o->timeout_s, (double)n->silent_ms / 1000);
}

static void dump_put_nodes(struct buf *out, const struct dump *d)
{
	for (size_t i = 0; i < d->nqueries; i++) {
		for (size_t k = 0; k < d->queries[i].n; k++) {
			if (out->len)
				buf_put(out, "\n", 1);
			dump_put_node(out, &d->queries[i].nodes[k], &d->o);
		}
	}
}

/* ---- Findings from the calls of all ranks of a job ---- */

/* A job of this host alone: as if its node had answered. */
static int dump_put_local_findings(struct buf *out, const struct dump *d,
				   size_t i, size_t n)
{
	struct buf items = BUF_INIT(TEXT_MAX);
	char host[FLIGHT_NAME_MAX];
	struct dump_node node = {.host = host};
	int rc;

	snprintf(host, sizeof(host), "%s", d->local.workers[i].job->host);
	node.calls.count = rank_calls_put(&items, &d->local, i, n, &d->before);
	node.calls.bytes = SLICE(items.data, items.len);
	rc = items.failed ? items.failed : stragglers_put(out, &node, 1);
	buf_release(&items);
	return rc;
}

static int dump_put_findings(struct buf *out, const struct dump *d,
			     struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < d->nqueries; i++)
		rc = stragglers_put(out, d->queries[i].nodes, d->queries[i].n);
	for (size_t i = 0, n; rc == 0 && i < d->local.n; i += n) {
		n = dump_same_job_run(&d->local, i);
		rc = dump_put_local_findings(out, d, i, n);
	}
	return rc < 0 ? err_no_memory(e, "the dump") : 0;
}

/* Whether any node has workers. */
static int dump_has_workers(const struct dump *d)
{
	size_t pages = d->local.n;

	for (size_t i = 0; i < d->nqueries; i++) {
		for (size_t k = 0; k < d->queries[i].n; k++)
			pages += d->queries[i].nodes[k].page.len != 0;
	}
	return pages != 0;
}

/* Whether it is the page of one ddprun, for the tool that queries all nodes. */
static int dump_is_page(const struct dump *d)
{
	return d->o.agent && !d->o.all_nodes;
}

static int dump_put_all(struct dump *d, struct buf *out, struct err *e)
{
	struct buf findings = BUF_INIT(TEXT_MAX);
	int rc = 0;

	if (!dump_is_page(d) && dump_put_findings(&findings, d, e) < 0)
		rc = e->code;
	else if (d->o.json && (d->o.here || dump_is_page(d)))
		rc = d->local.n ? dump_put_json(out, &d->local, &d->o, e) : 0;
	else if (d->o.json)
		rc = dump_put_nodes_json(out, d->queries, d->nqueries,
					 &d->local, &findings, &d->o, e);
	else {
		dump_put_nodes(out, d);
		if (out->len && d->local.n)
			buf_put(out, "\n", 1);
		dump_put_text(out, &d->local, &d->o);
		buf_put(out, "\n", out->len && findings.len ? 1 : 0);
		buf_put(out, findings.data, findings.len);
	}
	buf_release(&findings);
	return rc;
}

/* Returns the exit code. */
static int dump_write(const struct buf *out, int rc)
{
	struct err e = ERR_INIT;

	if (out->failed) {
		err_set(&e, out->failed, "out of memory for the dump, or it is "
			"larger than %d MiB", TEXT_MAX >> 20);
		return control_client_fail(&e, EXIT_OS);
	}
	if (out->len && file_write_all(STDOUT_FILENO, out->data, out->len))
		return EXIT_OS;
	return rc;
}

static int dump_show(struct dump *d)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = dump_has_workers(d) ? 0
		 : d->nqueries	     ? CONTROL_CLIENT_NOTHING
				     : dump_log_nothing(&d->o);

	if ((d->nqueries || d->local.n) && dump_put_all(d, &out, &e) < 0)
		rc = control_client_fail(&e, EXIT_OS);
	rc = dump_write(&out, rc);
	buf_release(&out);
	return rc;
}

static int dump_merge(const struct dump_options *o)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = merge_put(&out, o->merge, o->json, &e);

	if (rc < 0) {
		rc = control_client_fail(&e, EXIT_OS);
	} else if (rc == 0) {
		log_error("error: no file below %s has recorded calls: ddprun "
			  "leaves recorder_N, and PyTorch fr_trace_N, in "
			  "attempt_N of --log-dir when a job fails", o->merge);
		rc = CONTROL_CLIENT_NOTHING;
	} else {
		rc = dump_write(&out, 0);
	}
	buf_release(&out);
	return rc;
}

/* Reads the calls twice if a worker is in a call, unless an agent runs this for
 * its page: then the agent does. */
static int dump_fetch(struct dump *d, struct err *e)
{
	const struct timespec pause = {0, RANK_CALLS_MS * 1000000};
	pid_t agent = (pid_t)d->o.agent;
	int rc = local_workers_init(&d->local, d->o.job, agent, e);

	if (rc < 0 || dump_is_page(d) ||
	    !rank_moments_init(&d->before, &d->local))
		return rc;
	nanosleep(&pause, NULL);
	local_workers_release(&d->local);
	return local_workers_init(&d->local, d->o.job, agent, e);
}

static int dump_collect(struct dump *d, struct err *e)
{
	const char *job = d->o.job ? d->o.job : "none";
	struct auth auth;
	int rc;

	if (d->o.server) {
		rc = auth_choose(&auth, d->o.auth, d->o.token_file, e);
		rc = rc < 0 ? rc
			    : dump_query_server(d, d->o.server, job, &auth, e);
		auth_wipe(&auth);
		return rc;
	}
	rc = dump_fetch(d, e);
	if (rc == 0 && !d->o.here && (!d->o.agent || d->o.all_nodes))
		dump_query_jobs(d);
	return rc;
}

int dump_main(int argc, char **argv)
{
	static struct dump d = {.o = {.last = 5, .timeout_s = 10}};
	struct err e = ERR_INIT;
	int rc = option_parse(dump_options, &d.o, argc, argv, 0, &e);

	if (rc == OPTION_WANT_HELP) {
		control_client_print_help(usage, dump_options, "worker");
		return 0;
	}
	if (rc >= 0 && d.o.server && (d.o.here || d.o.agent))
		rc = err_set(&e, ERR_USAGE, "--rdzv-endpoint asks another host "
			     "and cannot be combined with --here or --agent");
	if (rc >= 0 && d.o.merge &&
	    (d.o.server || d.o.here || d.o.agent || d.o.job))
		rc = err_set(&e, ERR_USAGE, "--merge reads files and cannot be "
			     "combined with --job, --rdzv-endpoint, --here or "
			     "--agent");
	if (rc < 0)
		return control_client_fail(&e, EXIT_BAD_USAGE);
	if (d.o.merge)
		return dump_merge(&d.o);
	rc = dump_collect(&d, &e);
	if (rc < 0)
		rc = control_client_fail(&e, d.o.server ? exit_code_of(&e)
							: EXIT_OS);
	else
		rc = dump_show(&d);
	for (size_t i = 0; i < d.nqueries; i++)
		dump_query_release(&d.queries[i]);
	local_workers_release(&d.local);
	rank_moments_release(&d.before);
	return rc;
}

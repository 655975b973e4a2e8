/* dump.c: the subcommand, and its text. */
#include "launcher/inspect/dump.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/config/exit_code.h"
#include "launcher/inspect/behind.h"
#include "launcher/inspect/job_key.h"
#include "launcher/inspect/stack.h"
#include "launcher/inspect/tool.h"

enum {
	TEXT_MAX = 1 << 30,
	MISSING_SHOWN = 8,
	NOTHING = 1,
	ASKED_MAX = 64, /* jobs */
	DEFAULT_PORT = 29400,
};

#define FIELD(name) .offset = offsetof(struct dump_options, name)

const struct option_spec dump_options[] = {
	TOOL_OPTIONS(struct dump_options, "Ask this rendezvous server for the "
		     "job (none, unless --job names it): for a host where no "
		     "ddprun runs."),
	{.name = "timeout", .kind = OPTION_DOUBLE, FIELD(timeout_s),
	 .min = 0.1, .max = WIRE_DUMP_MAX_MS / 1000, .arg = "SECONDS",
	 .help = "Wait so long for the answers of other nodes (10)."},
	{.name = "here", .kind = OPTION_FLAG, FIELD(here),
	 .help = "Only of this host."},
	{.name = "agent", .kind = OPTION_INT, FIELD(agent), .min = 1,
	 .max = INT_MAX, .arg = "PID",
	 .help = "Only of this ddprun, on this host."},
	{.name = "last", .kind = OPTION_INT, FIELD(last), .min = 0,
	 .max = FLIGHT_ENTRIES, .arg = "N",
	 .help = "Show each worker's last N calls (5)."},
	{.name = "no-stacks", .kind = OPTION_FLAG, FIELD(no_stacks),
	 .help = "Stop nobody, not even for the moment that a stack takes."},
	{.name = "json", .kind = OPTION_FLAG, FIELD(json),
	 .help = "The same for programs."},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,
	 .help = "Show this."},
	{.name = NULL},
};

static void print_help(void)
{
	printf("usage: ddprun dump [OPTIONS]\n\n"
	       "Shows what the workers are doing that your ddprun processes run"
	       " on this host,\nand those of their jobs on all other nodes: the"
	       " call of libddp that each is in,\nfor how long and for whom it "
	       "waits there, its last calls, and the native\nstacks of its "
	       "threads. The workers go on.\n"
	       "Those that others started (mpirun, srun, torchrun) are shown "
	       "on their own host.\n\n");
	option_print_help(dump_options);
	printf("\nExit code: 0, or 1 if there is no such worker.\n");
}

/* ---- As text ---- */

static void put_missing(struct buf *out, const struct look *l, size_t i)
{
	uint32_t ranks[MISSING_SHOWN], elsewhere;
	size_t n = look_missing(l, i, ranks, MISSING_SHOWN, &elsewhere);

	for (size_t k = 0; k < n && k < MISSING_SHOWN; k++)
		buf_printf(out, "%s%u", k ? ", " : n > 1 ? "; not there: ranks "
			   : "; not there: rank ", ranks[k]);
	if (n > MISSING_SHOWN)
		buf_printf(out, " and %zu more", n - MISSING_SHOWN);
	if (elsewhere)
		buf_printf(out, "; not known: %u rank%s%s", elsewhere,
			   elsewhere == 1 ? "" : "s",
			   l->workers[i].job->nodes > 1 ? " of other nodes"
							: "");
}

static void put_now(struct buf *out, const struct look *l, size_t i)
{
	const struct look_worker *w = &l->workers[i];
	const struct flight_op *op = w->view ? flight_under_way(w->view) : NULL;
	char text[FLIGHT_TEXT_MAX], ago[16];

	if (w->recorder == LOOK_GARBAGE)
		buf_printf(out, "  its flight recorder is damaged, or of "
			   "another version of libddp\n");
	else if (!w->view || !w->view->n)
		buf_printf(out, "  no call of libddp\n");
	else if (op) {
		flight_op_text(w->view, op, text);
		buf_printf(out, "  in %s for %s", text,
			   flight_time_text(op->ns, l->now_ns, ago));
		put_missing(out, l, i);
		buf_put(out, "\n", 1);
	} else
		buf_printf(out, "  %s\n", flight_last_text(w->view, l->now_ns,
							   text));
}

static void put_calls(struct buf *out, const struct look *l,
		      const struct look_worker *w, long last)
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

static void put_thread(void *arg, const struct stack_thread *t)
{
	struct buf *out = arg;

	buf_printf(out, "  thread %d (%s)%s%s\n", (int)t->tid, t->name,
		   t->n ? "" : ": ", t->n ? "" : t->why.text);
	for (int i = 0; i < t->n; i++) {
		const struct stack_frame *x = &t->frames[i];

		buf_printf(out, "    #%-2d %s", i,
			   x->function[0] ? x->function : "?");
		if (x->source[0])
			buf_printf(out, " at %s", x->source);
		buf_printf(out, " (%s 0x%llx)\n",
			   x->module[0] ? x->module : "no file",
			   (unsigned long long)x->pc);
	}
	if (t->n == STACK_FRAMES_MAX)
		buf_printf(out, "    and so on\n");
}

static void put_worker(struct buf *out, const struct look *l, size_t i,
		       const struct dump_options *o)
{
	const struct look_worker *w = &l->workers[i];
	struct err e = ERR_INIT;

	buf_printf(out, "rank %u (local rank %u), pid %d, %s", w->rank,
		   w->local_rank, (int)w->program, look_state(w->state));
	if (w->state)
		buf_printf(out, ", %.1f s of CPU", w->cpu_s);
	buf_put(out, "\n", 1);
	put_now(out, l, i);
	put_calls(out, l, w, o->last);
	if (o->no_stacks || !w->state || w->state == 'Z')
		return;
	if (stack_walk(w->program, put_thread, out, &e) < 0)
		buf_printf(out, "  %s\n", e.text);
}

static uint32_t workers_of(const struct look *l, size_t first)
{
	uint32_t n = 0;

	for (size_t i = first; i < l->n; i++)
		n += look_same_job(&l->workers[first], &l->workers[i]);
	return n;
}

static void put_text(struct buf *out, const struct look *l,
		     const struct dump_options *o)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct look_worker *w = &l->workers[i];

		if (!i || !look_same_job(w, w - 1))
			buf_printf(out, "%sjob '%s', attempt %u: %u of %u "
				   "ranks are on %s\n", i ? "\n" : "",
				   w->job->job, w->job->attempt + 1,
				   workers_of(l, i), w->job->world_size,
				   w->job->host);
		put_worker(out, l, i, o);
	}
}

/* ---- The subcommand ---- */

static int fail(const struct err *e, int code)
{
	log_error("error: %s", e->text);
	return code;
}

static int nothing(const struct dump_options *o)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	if (o->job)
		log_error("error: no ddprun of yours runs workers of job '%s' "
			  "on %s", o->job, host);
	else
		log_error("error: no ddprun of yours runs workers on %s, and no"
			  " other program of yours there is in a world of "
			  "libddp", host);
	return NOTHING;
}

/* ---- The other nodes ---- */

struct dump {
	struct dump_options o;
	struct look look;
	struct ask asked[ASKED_MAX];
	size_t nasked;
};

static int ask(struct dump *d, const char *server, const char *job,
	       const struct auth *auth, struct err *e)
{
	const struct wire_dump m = {
		.json = (uint8_t)d->o.json,
		.no_stacks = (uint8_t)d->o.no_stacks,
		.last = (uint32_t)d->o.last,
		.timeout_ms = (uint32_t)(d->o.timeout_s * 1000),
	};
	struct ask *a = &d->asked[d->nasked];
	struct endpoint at;
	int rc = endpoint_parse(&at, server, DEFAULT_PORT, e);

	if (rc < 0)
		return rc;
	rc = ask_init(a, &at, job, auth, &m, e);
	if (rc < 0)
		ask_release(a);
	else
		d->nasked++;
	return rc;
}

/* So many workers, from i on, are of the same job. */
static size_t run_of(const struct look *l, size_t i)
{
	size_t n = 1;

	while (i + n < l->n &&
	       look_same_job(&l->workers[i], &l->workers[i + n]))
		n++;
	return n;
}

static int ask_for_job(struct dump *d, const struct flight_file *job,
		       struct err *e)
{
	struct auth auth;
	int rc = job_key_of(&auth, job, e);

	if (rc == 0)
		rc = ask(d, job->server, job->job, &auth, e);
	auth_wipe(&auth);
	return rc;
}

/* Who is here is seen without asking; who was asked for is not shown twice. */
static void ask_for_jobs(struct dump *d)
{
	struct err e = ERR_INIT;
	size_t kept = 0;

	while (kept < d->look.n) {
		const struct flight_file *job = d->look.workers[kept].job;
		size_t n = run_of(&d->look, kept);

		if (job->nodes > 1 && job->server[0] && d->nasked < ASKED_MAX) {
			if (ask_for_job(d, job, &e) == 0) {
				look_drop(&d->look, kept, n);
				continue;
			}
			log_warn("the other nodes of job '%s' cannot be asked: "
				 "%s; this is of this host only", job->job,
				 e.text);
		}
		kept += n;
	}
}

static void put_node(struct buf *out, const struct asked_node *n,
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
		buf_printf(out, "%s did not answer within %g s; nothing was "
			   "heard of it for %.1f s\n", name, o->timeout_s,
			   (double)n->silent_ms / 1000);
}

static int put_nodes(struct buf *out, const struct dump *d, struct err *e)
{
	for (size_t i = 0; i < d->nasked; i++) {
		for (size_t k = 0; k < d->asked[i].n; k++) {
			if (out->len)
				buf_put(out, "\n", 1);
			put_node(out, &d->asked[i].nodes[k], &d->o);
		}
		buf_put(out, "\n", 1);
		if (behind_put(out, &d->asked[i]) < 0)
			return err_set(e, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Whether any node has workers. */
static int found_some(const struct dump *d)
{
	size_t pages = d->look.n;

	for (size_t i = 0; i < d->nasked; i++) {
		for (size_t k = 0; k < d->asked[i].n; k++)
			pages += d->asked[i].nodes[k].page.len != 0;
	}
	return pages != 0;
}

static int put_all(struct dump *d, struct buf *out, struct err *e)
{
	if (d->o.json && (d->o.here || d->o.agent))
		return d->look.n ? dump_put_json(out, &d->look, &d->o, e) : 0;
	if (d->o.json)
		return dump_put_nodes_json(out, d->asked, d->nasked, &d->look,
					   &d->o, e);
	if (put_nodes(out, d, e) < 0)
		return e->code;
	if (out->len && d->look.n)
		buf_put(out, "\n", 1);
	put_text(out, &d->look, &d->o);
	return 0;
}

static int show(struct dump *d)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = found_some(d) ? 0 : d->nasked ? NOTHING : nothing(&d->o);

	if ((d->nasked || d->look.n) && put_all(d, &out, &e) < 0)
		rc = fail(&e, EXIT_OS);
	if (out.failed) {
		err_set(&e, out.failed, "the dump is larger than %d MiB, or "
			"memory is short", TEXT_MAX >> 20);
		rc = fail(&e, EXIT_OS);
	} else if (out.len && file_write_all(STDOUT_FILENO, out.data, out.len))
		rc = EXIT_OS;
	buf_release(&out);
	return rc;
}

static int look_and_ask(struct dump *d, struct err *e)
{
	const char *job = d->o.job ? d->o.job : "none";
	struct auth auth;
	int rc;

	if (d->o.server) {
		rc = auth_choose(&auth, d->o.auth, d->o.token_file, e);
		rc = rc < 0 ? rc : ask(d, d->o.server, job, &auth, e);
		auth_wipe(&auth);
		return rc;
	}
	rc = look_init(&d->look, d->o.job, (pid_t)d->o.agent, e);
	if (rc == 0 && !d->o.here && !d->o.agent)
		ask_for_jobs(d);
	return rc;
}

int dump_main(int argc, char **argv)
{
	static struct dump d = {.o = {.last = 5, .timeout_s = 10}};
	struct err e = ERR_INIT;
	int rc = option_parse(dump_options, &d.o, argc, argv, 0, &e);

	if (rc == OPTION_WANT_HELP) {
		print_help();
		return 0;
	}
	if (rc >= 0 && d.o.server && (d.o.here || d.o.agent))
		rc = err_set(&e, ERR_USAGE, "--rdzv-endpoint asks another host:"
			     " it does not go with --here or --agent");
	if (rc < 0)
		return fail(&e, EXIT_BAD_USAGE);
	rc = look_and_ask(&d, &e);
	if (rc < 0)
		rc = fail(&e, d.o.server ? exit_code_of(&e) : EXIT_OS);
	else
		rc = show(&d);
	for (size_t i = 0; i < d.nasked; i++)
		ask_release(&d.asked[i]);
	look_release(&d.look);
	return rc;
}

/* dump.c: the subcommand, and its text. */
#include "launcher/dump.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/exit_code.h"
#include "launcher/stack.h"

enum { TEXT_MAX = 256 << 20, MISSING_SHOWN = 8, NOTHING = 1 };

#define FIELD(name) .offset = offsetof(struct dump_options, name)

const struct option_spec dump_options[] = {
	{.name = "job", .kind = OPTION_STRING, FIELD(job), .arg = "ID",
	 .help = "Only of the job with this --rdzv-id."},
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
	       " on this host:\nthe call of libddp that each is in, for how "
	       "long and for whom it waits there,\nits last calls, and the "
	       "native stacks of its threads. The workers go on.\n\n");
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
		log_error("error: no ddprun of yours runs workers on %s", host);
	return NOTHING;
}

int dump_main(int argc, char **argv)
{
	struct dump_options o = {.last = 5};
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	static struct look l;
	int rc = option_parse(dump_options, &o, argc, argv, 0, &e);

	if (rc == OPTION_WANT_HELP) {
		print_help();
		return 0;
	}
	if (rc < 0)
		return fail(&e, EXIT_BAD_USAGE);
	if (look_init(&l, o.job, &e) < 0)
		return fail(&e, EXIT_OS);
	rc = l.n ? 0 : nothing(&o);
	if (l.n && !o.json)
		put_text(&out, &l, &o);
	else if (l.n && dump_put_json(&out, &l, &o, &e) < 0)
		rc = fail(&e, EXIT_OS);
	if (out.failed) {
		err_set(&e, out.failed, "the dump is larger than %d MiB, or "
			"memory is short", TEXT_MAX >> 20);
		rc = fail(&e, EXIT_OS);
	} else if (out.len && file_write_all(STDOUT_FILENO, out.data, out.len))
		rc = EXIT_OS;
	buf_release(&out);
	look_release(&l);
	return rc;
}

/* status.c: the subcommand, and its text. */
#include "launcher/inspect/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/config/exit_code.h"
#include "launcher/inspect/job_key.h"
#include "launcher/inspect/look.h"
#include "launcher/inspect/tool.h"

enum {
	TEXT_MAX = 1 << 30,
	NOTHING = 1,
	DEFAULT_PORT = 29400,
};

#define FIELD(name) .offset = offsetof(struct status_options, name)

const struct option_spec status_options[] = {
	TOOL_OPTIONS(struct status_options, "Ask this rendezvous server, of all"
		     " its jobs: for a host where no ddprun runs."),
	{.name = "timeout", .kind = OPTION_DOUBLE, FIELD(timeout_s),
	 .min = 0.1, .max = 600, .arg = "SECONDS",
	 .help = "Wait so long for a server's answer (5)."},
	{.name = "json", .kind = OPTION_FLAG, FIELD(json),
	 .help = "The same for programs."},
	{.name = "help", .letter = 'h', .kind = OPTION_HELP,
	 .help = "Show this."},
	{.name = NULL},
};

static void print_help(void)
{
	printf("usage: ddprun status [OPTIONS]\n\n"
	       "Shows the jobs that your ddprun processes on this host are in, "
	       "as their rendezvous\nserver knows them: nodes, workers, round, "
	       "restarts, and who is waited for and\nsince when.\n\n");
	option_print_help(status_options);
	printf("\nExit code: 0, or 1 if there is no such job.\n");
}

const char *status_state(uint8_t state)
{
	static const char *const names[] = {"gathering", "running",
					    "restarting", "over"};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *status_node_state(uint8_t state)
{
	static const char *const names[] = {
		[WIRE_NODE_RUNS] = "runs", [WIRE_NODE_WAITS] = "waits",
		[WIRE_NODE_STOPS] = "stops", [WIRE_NODE_SPARE] = "spare",
		[WIRE_NODE_GONE] = "gone",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

static int compare(const void *pa, const void *pb)
{
	const struct wire_job_node *a = pa, *b = pb;

	/* -1 is the largest of all */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return 0;
}

uint32_t status_nodes(const struct status_job *job, struct wire_job_node **out)
{
	const struct wire_items *list = &job->as.nodes;
	struct reader r;
	uint32_t n = 0;

	*out = calloc(list->count + 1, sizeof(**out));
	reader_init(&r, list->bytes);
	while (*out && n < list->count) {
		(*out)[n] = wire_get_job_node_item(&r);
		if (r.bad)
			break;
		n++;
	}
	if (n)
		qsort(*out, n, sizeof(**out), compare);
	return n;
}

/* ---- as text ---- */

static unsigned long long seconds(uint64_t ms)
{
	return (ms + 500) / 1000;
}

static void put_node(struct buf *out, const struct wire_job_node *n)
{
	char rank[16] = "-";

	if (n->node_rank >= 0)
		snprintf(rank, sizeof(rank), "%d", (int)n->node_rank);
	buf_printf(out, "  node %s  %.*s  %.*s  %s", rank, SLICE_FMT(n->host),
		   SLICE_FMT(n->addr), status_node_state(n->state));
	if (n->state == WIRE_NODE_RUNS)
		buf_printf(out, "  ranks %u to %u: %u connected, %u ended",
			   n->base_rank, n->base_rank + n->nproc - 1,
			   n->connected, n->exited);
	else
		buf_printf(out, "  %u worker%s", n->nproc,
			   n->nproc == 1 ? "" : "s");
	if (seconds(n->silent_ms) > 1)
		buf_printf(out, "  silent for %llu s", seconds(n->silent_ms));
	buf_put(out, "\n", 1);
}

static void put_head(struct buf *out, const struct status_job *job)
{
	const struct wire_job *m = &job->as;

	buf_printf(out, "job '%.*s' at %s: %s for %llu s, round %u, attempt %u "
		   "of %u", SLICE_FMT(m->job), job->server,
		   status_state(m->state), seconds(m->state_ms), m->round,
		   m->attempt + 1, m->max_restarts + 1);
	if (m->changes)
		buf_printf(out, ", %u change%s of nodes", m->changes,
			   m->changes == 1 ? "" : "s");
	buf_printf(out, "\n  %u of ", m->joined);
	if (m->min_nodes != m->max_nodes)
		buf_printf(out, "%u to ", m->min_nodes);
	buf_printf(out, "%u node%s", m->max_nodes,
		   m->max_nodes == 1 ? "" : "s");
	if (m->spares)
		buf_printf(out, ", %u spare%s", m->spares,
			   m->spares == 1 ? "" : "s");
	if (m->world_size)
		buf_printf(out, ", %u worker%s (%u connected, %u ended); the "
			   "store holds %llu keys, %llu bytes", m->world_size,
			   m->world_size == 1 ? "" : "s", m->connected,
			   m->exited, (unsigned long long)m->keys,
			   (unsigned long long)m->bytes);
	buf_put(out, "\n", 1);
}

static void put_job(struct buf *out, const struct status_job *job)
{
	const struct wire_job *m = &job->as;
	struct wire_job_node *nodes;
	uint32_t n = status_nodes(job, &nodes);

	put_head(out, job);
	if (m->text.len)
		buf_printf(out, "  waiting %llu s for %.*s\n",
			   seconds(m->waited_ms), SLICE_FMT(m->text));
	if (m->cause.len)
		buf_printf(out, "  the last round ended: %.*s\n",
			   SLICE_FMT(m->cause));
	for (uint32_t i = 0; i < n; i++)
		put_node(out, &nodes[i]);
	free(nodes);
}

static int put_all(const struct status *s, struct buf *out, struct err *e)
{
	if (s->o.json)
		return status_put_json(out, s, e);
	for (size_t i = 0; i < s->n; i++) {
		if (i)
			buf_put(out, "\n", 1);
		put_job(out, &s->jobs[i]);
	}
	return 0;
}

/* ---- asking ---- */

struct asking {
	struct status *s;
	const char *server;
};

static void put_question(struct buf *out, uint32_t id, const void *arg)
{
	wire_put_empty(out, WIRE_STATUS, WIRE_REQUEST, id);
}

static int keep(struct status *s, const struct wire_frame *f,
		const char *server, struct err *e)
{
	struct status_job *more =
		realloc(s->jobs, (s->n + 1) * sizeof(*more)), *job;
	struct wire_frame own = *f;

	if (more)
		s->jobs = more;
	job = more ? &more[s->n] : NULL;
	if (!job || !(job->bytes = malloc(f->body.len + 1)))
		return err_set(e, -ENOMEM, "out of memory");
	memcpy(job->bytes, f->body.data, f->body.len);
	own.body.data = job->bytes;
	s->n++;
	snprintf(job->server, sizeof(job->server), "%s", server);
	return wire_get_job(&own, &job->as, e);
}

static int take(void *arg, const struct wire_frame *f, struct err *e)
{
	const struct asking *x = arg;

	return f->type == WIRE_JOB ? keep(x->s, f, x->server, e) : 0;
}

static int ask(struct status *s, const char *server, const char *job,
	       const struct auth *auth, struct err *e)
{
	struct asking x = {s, server};
	const struct tool_question q = {
		.job = job, .auth = auth, .put = put_question,
		.take = take, .arg = &x,
		.timeout_ms = (uint32_t)(s->o.timeout_s * 1000),
	};
	struct endpoint at;
	int rc = endpoint_parse(&at, server, DEFAULT_PORT, e);

	return rc < 0 ? rc : tool_ask(&at, &q, e);
}

static int ask_for_job(struct status *s, const struct flight_file *job,
		       struct err *e)
{
	struct auth auth;
	int rc = job_key_of(&auth, job, e);

	if (rc == 0)
		rc = ask(s, job->server, job->job, &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int ask_server(struct status *s, struct err *e)
{
	struct auth auth;
	int rc = auth_choose(&auth, s->o.auth, s->o.token_file, e);

	if (rc == 0)
		rc = ask(s, s->o.server, s->o.job ? s->o.job : "", &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int is_first(const struct look *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->jobs[k]->job, l->jobs[i]->job) == 0 &&
		    strcmp(l->jobs[k]->server, l->jobs[i]->server) == 0)
			return 0;
	return 1;
}

/* Those that this user's ddpruns on this host are in. */
static int ask_for_jobs(struct status *s, struct err *e)
{
	struct look l;
	int rc = look_init(&l, s->o.job, 0, e);

	for (size_t i = 0; rc == 0 && i < l.njobs; i++) {
		const struct flight_file *job = l.jobs[i];

		if (!job->server[0] || !is_first(&l, i))
			continue;
		if (ask_for_job(s, job, e) < 0) {
			log_warn("job '%s' cannot be asked for: %s", job->job,
				 e->text);
			s->unreachable++;
		}
	}
	if (rc == 0)
		look_release(&l);
	return rc;
}

/* ---- the subcommand ---- */

static int fail(const struct err *e, int code)
{
	log_error("error: %s", e->text);
	return code;
}

static int nothing(const struct status *s)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	if (s->o.server)
		log_error("error: there is no job at %s", s->o.server);
	else if (!s->unreachable)
		log_error("error: no ddprun of yours on %s is in %s%s%s that "
			  "has a round or waits for one", host,
			  s->o.job ? "job '" : "a job",
			  s->o.job ? s->o.job : "", s->o.job ? "'" : "");
	return NOTHING;
}

static int show(const struct status *s)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = s->n ? 0 : nothing(s);

	if ((s->n || s->o.json) && put_all(s, &out, &e) < 0)
		rc = fail(&e, EXIT_OS);
	else if (out.len && file_write_all(STDOUT_FILENO, out.data, out.len))
		rc = EXIT_OS;
	buf_release(&out);
	return rc;
}

int status_main(int argc, char **argv)
{
	static struct status s = {.o = {.timeout_s = 5}};
	struct err e = ERR_INIT;
	int rc = option_parse(status_options, &s.o, argc, argv, 0, &e);

	if (rc == OPTION_WANT_HELP) {
		print_help();
		return 0;
	}
	if (rc >= 0 && rc < argc)
		rc = err_set(&e, ERR_USAGE, "'%s' is not an option; a program "
			     "that is called status is started as ddprun "
			     "./status", argv[rc]);
	if (rc < 0)
		return fail(&e, EXIT_BAD_USAGE);
	rc = s.o.server ? ask_server(&s, &e) : ask_for_jobs(&s, &e);
	if (rc < 0)
		rc = fail(&e, s.o.server ? exit_code_of(&e) : EXIT_OS);
	else
		rc = show(&s);
	for (size_t i = 0; i < s.n; i++)
		free(s.jobs[i].bytes);
	free(s.jobs);
	return rc;
}

/* status.c: the subcommand; its output as text, and as JSON, whose keys
 * docs/ddprun-status.1 describes. */
#include "launcher/inspect/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/failure/exit_code.h"
#include "launcher/inspect/control_client.h"
#include "launcher/inspect/local_workers.h"
#include "launcher/inspect/rank_progress.h"

enum { JSON_VERSION = 1, TEXT_MAX = 1 << 30 };

struct status_options {
	const char *job;    /* NULL: all */
	const char *server; /* --rdzv-endpoint, or NULL */
	const char *auth, *token_file; /* or NULL */
	double timeout_s;
	int json;
};

/* A job as its server describes it; the slices of `as` point into bytes. */
struct status_job {
	char server[320];
	char *bytes, *rank_bytes; /* the latter may be NULL */
	struct wire_job as;
	struct wire_ranks ranks;
};

struct status {
	struct status_options o;
	struct status_job *jobs;
	size_t n;
	uint32_t unreachable; /* servers */
};

#define FIELD(name) .offset = offsetof(struct status_options, name)

const struct option_spec status_options[] = {
	CONTROL_CLIENT_OPTIONS(struct status_options,
			       "Ask this rendezvous server for all its jobs: "
			       "use it on a host that runs no ddprun."),
	{.name = "timeout", .kind = OPTION_DOUBLE, FIELD(timeout_s),
	 .min = 0.1, .max = 600, .arg = "SECONDS",
	 .help = "How long to wait for a server's answer (5)."},
	CONTROL_CLIENT_LAST_OPTIONS(struct status_options),
};

static const char usage[] =
	"usage: ddprun status [OPTIONS]\n\n"
	"Shows the jobs that your ddprun processes on this host belong to, as"
	" their\nrendezvous servers know them: nodes, workers, round, restarts,"
	" and what a job\nwaits for and since when.\n\n";

/* Never NULL. */
static const char *status_state(uint8_t state)
{
	static const char *const names[] = {"gathering", "running",
					    "restarting", "over"};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

static const char *status_node_state(uint8_t state)
{
	static const char *const names[] = {
		[WIRE_NODE_RUNS] = "runs", [WIRE_NODE_WAITS] = "waits",
		[WIRE_NODE_STOPS] = "stops", [WIRE_NODE_SPARE] = "spare",
		[WIRE_NODE_GONE] = "gone",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

static int status_compare_nodes(const void *pa, const void *pb)
{
	const struct wire_job_node *a = pa, *b = pb;

	/* as unsigned, -1 is the largest */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return 0;
}

/* The job's nodes by rank, those without one last. Returns how many there are;
 * the caller frees *out. */
static uint32_t status_nodes(const struct status_job *job,
			     struct wire_job_node **out)
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
		qsort(*out, n, sizeof(**out), status_compare_nodes);
	return n;
}

/* ---- as text ---- */

static unsigned long long status_seconds(uint64_t ms)
{
	return (ms + 500) / 1000;
}

static void status_put_node(struct buf *out, const struct wire_job_node *n)
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
	if (status_seconds(n->silent_ms) > 1)
		buf_printf(out, "  silent for %llu s",
			   status_seconds(n->silent_ms));
	buf_put(out, "\n", 1);
}

static void status_put_head(struct buf *out, const struct status_job *job)
{
	const struct wire_job *m = &job->as;

	buf_printf(out,
		   "job '%.*s' at %s: %s for %llu s, round %u, attempt %u "
		   "of %u",
		   SLICE_FMT(m->job), job->server, status_state(m->state),
		   status_seconds(m->state_ms), m->round, m->attempt + 1,
		   m->max_restarts + 1);
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

static void status_put_job(struct buf *out, const struct status_job *job)
{
	const struct wire_job *m = &job->as;
	struct wire_job_node *nodes;
	uint32_t n = status_nodes(job, &nodes);

	status_put_head(out, job);
	if (m->text.len)
		buf_printf(out, "  waiting %llu s for %.*s\n",
			   status_seconds(m->waited_ms), SLICE_FMT(m->text));
	if (m->cause.len)
		buf_printf(out, "  the last round ended: %.*s\n",
			   SLICE_FMT(m->cause));
	for (uint32_t i = 0; i < n; i++)
		status_put_node(out, &nodes[i]);
	free(nodes);
	rank_progress_put(out, &job->ranks.ranks);
}

/* ---- as JSON ---- */

static void status_json_add_waiting(const struct json *j, cJSON *to,
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

static cJSON *status_json_node(const struct json *j,
			       const struct wire_job_node *n)
{
	cJSON *to = j->object();

	j->add_number(to, "node_rank", n->node_rank);
	json_add_text_or_null(j, to, "host", n->host);
	json_add_text_or_null(j, to, "address", n->addr);
	j->add_string(to, "state", status_node_state(n->state));
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

static cJSON *status_json_job(const struct json *j,
			      const struct status_job *job)
{
	const struct wire_job *m = &job->as;
	cJSON *to = j->object(), *list;
	struct wire_job_node *nodes;
	uint32_t n = status_nodes(job, &nodes);

	json_add_text_or_null(j, to, "job", m->job);
	json_add_text_or_null(j, to, "server", SLICE_STR(job->server));
	j->add_string(to, "state", status_state(m->state));
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
	status_json_add_waiting(j, to, m);
	json_add_text_or_null(j, to, "last_end", m->cause);
	list = j->add_array(to, "nodes");
	for (uint32_t i = 0; i < n; i++)
		j->append(list, status_json_node(j, &nodes[i]));
	free(nodes);
	rank_progress_put_json(j, to, &job->ranks.ranks);
	return to;
}

static int status_put_json(struct buf *out, const struct status *s,
			   struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all, *jobs;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", JSON_VERSION);
	jobs = j->add_array(all, "jobs");
	for (size_t i = 0; i < s->n; i++)
		j->append(jobs, status_json_job(j, &s->jobs[i]));
	return json_put(out, j, all, e);
}

static int status_put_all(const struct status *s, struct buf *out,
			  struct err *e)
{
	if (s->o.json)
		return status_put_json(out, s, e);
	for (size_t i = 0; i < s->n; i++) {
		if (i)
			buf_put(out, "\n", 1);
		status_put_job(out, &s->jobs[i]);
	}
	return 0;
}

/* ---- asking ---- */

struct status_query {
	struct status *s;
	const char *server;
};

static void status_put_request(struct buf *out, uint32_t id, const void *arg)
{
	wire_put_empty(out, WIRE_STATUS, WIRE_REQUEST, id);
}

static int status_add_job(struct status *s, const struct wire_frame *f,
			  const char *server, struct err *e)
{
	struct status_job *more =
		realloc(s->jobs, (s->n + 1) * sizeof(*more)), *job;
	struct wire_frame own = *f;

	if (more)
		s->jobs = more;
	job = more ? &more[s->n] : NULL;
	if (!job || !(job->bytes = malloc(f->body.len + 1)))
		return err_no_memory(e, "the status");
	memcpy(job->bytes, f->body.data, f->body.len);
	own.body.data = job->bytes;
	job->rank_bytes = NULL;
	job->ranks = (struct wire_ranks){.round = 0};
	s->n++;
	snprintf(job->server, sizeof(job->server), "%s", server);
	return wire_get_job(&own, &job->as, e);
}

/* RANKS follows its JOB. */
static int status_add_ranks(struct status *s, const struct wire_frame *f,
			    struct err *e)
{
	struct status_job *job = s->n ? &s->jobs[s->n - 1] : NULL;
	struct wire_frame own = *f;

	if (!job || job->rank_bytes)
		return 0;
	job->rank_bytes = malloc(f->body.len + 1);
	if (!job->rank_bytes)
		return err_no_memory(e, "the status");
	memcpy(job->rank_bytes, f->body.data, f->body.len);
	own.body.data = job->rank_bytes;
	return wire_get_ranks(&own, &job->ranks, e);
}

static int status_on_notice(void *arg, const struct wire_frame *f,
			    struct err *e)
{
	const struct status_query *x = arg;

	if (f->type == WIRE_RANKS)
		return status_add_ranks(x->s, f, e);
	return f->type == WIRE_JOB ? status_add_job(x->s, f, x->server, e) : 0;
}

static int status_query_server(struct status *s, const char *server,
			       const char *job, const struct auth *auth,
			       struct err *e)
{
	struct status_query x = {s, server};
	const struct control_request q = {
		.job = job, .auth = auth, .put = status_put_request,
		.on_notice = status_on_notice, .arg = &x,
		.timeout_ms = (uint32_t)(s->o.timeout_s * 1000),
	};
	struct endpoint at;
	int rc = endpoint_parse(&at, server, CONTROL_CLIENT_PORT, e);

	return rc < 0 ? rc : control_client_request(&at, &q, e);
}

static int status_query_job(struct status *s, const struct flight_file *job,
			    struct err *e)
{
	struct auth auth;
	int rc = control_client_job_auth(&auth, job, e);

	if (rc == 0)
		rc = status_query_server(s, job->server, job->job, &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int status_query_endpoint(struct status *s, struct err *e)
{
	struct auth auth;
	int rc = auth_choose(&auth, s->o.auth, s->o.token_file, e);

	if (rc == 0)
		rc = status_query_server(s, s->o.server,
					 s->o.job ? s->o.job : "", &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int status_is_first(const struct local_workers *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->jobs[k]->job, l->jobs[i]->job) == 0 &&
		    strcmp(l->jobs[k]->server, l->jobs[i]->server) == 0)
			return 0;
	return 1;
}

/* Asks for the jobs that this user's ddpruns on this host belong to. */
static int status_query_jobs(struct status *s, struct err *e)
{
	struct local_workers l;
	int rc = local_workers_init(&l, s->o.job, 0, e);

	for (size_t i = 0; rc == 0 && i < l.njobs; i++) {
		const struct flight_file *job = l.jobs[i];

		if (!job->server[0] || !status_is_first(&l, i))
			continue;
		if (status_query_job(s, job, e) < 0) {
			log_warn("cannot query the server of job '%s': %s",
				 job->job, e->text);
			s->unreachable++;
		}
	}
	if (rc == 0)
		local_workers_release(&l);
	return rc;
}

/* ---- the subcommand ---- */

static int status_log_nothing(const struct status *s)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	if (s->o.server)
		log_error("error: there is no job at %s", s->o.server);
	else if (!s->unreachable)
		log_error("error: none of your ddpruns on %s is in %s%s%s that "
			  "has a round or waits for one",
			  host, s->o.job ? "job '" : "a job",
			  s->o.job ? s->o.job : "", s->o.job ? "'" : "");
	return CONTROL_CLIENT_NOTHING;
}

static int status_show(const struct status *s)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = s->n ? 0 : status_log_nothing(s);

	if ((s->n || s->o.json) && status_put_all(s, &out, &e) < 0)
		rc = control_client_fail(&e, EXIT_OS);
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
		control_client_print_help(usage, status_options, "job");
		return 0;
	}
	if (rc >= 0 && rc < argc)
		rc = err_set(&e, ERR_USAGE, "'%s' is not an option; to run a "
			     "program named status, type ddprun ./status",
			     argv[rc]);
	if (rc < 0)
		return control_client_fail(&e, EXIT_BAD_USAGE);
	rc = s.o.server ? status_query_endpoint(&s, &e)
			: status_query_jobs(&s, &e);
	if (rc < 0)
		rc = control_client_fail(&e, s.o.server ? exit_code_of(&e)
							: EXIT_OS);
	else
		rc = status_show(&s);
	for (size_t i = 0; i < s.n; i++) {
		free(s.jobs[i].bytes);
		free(s.jobs[i].rank_bytes);
	}
	free(s.jobs);
	return rc;
}

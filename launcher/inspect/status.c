/* status.c: the subcommand, and its output as text. */
#include "launcher/inspect/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sock.h"
#include "launcher/failure/exit_code.h"
#include "launcher/inspect/control_client.h"
#include "launcher/inspect/job_query.h"
#include "rendezvous/status/job_roles.h"

enum { TEXT_MAX = 1 << 30 };

struct status_options {
	const char *job;    /* NULL: all */
	const char *server; /* --rdzv-endpoint, or NULL */
	const char *auth, *token_file; /* or NULL */
	double timeout_s;
	int json;
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

/* ---- as text ---- */

static unsigned long long status_seconds(uint64_t ms)
{
	return (ms + 500) / 1000;
}

/* --role of a node's workers, where they all have one. */
static int status_has_role(const struct wire_job_node *n)
{
	static const char usual[] = "default";

	return n->role.len && (n->role.len != sizeof(usual) - 1 ||
			       memcmp(n->role.data, usual, n->role.len) != 0);
}

static void status_put_node(struct buf *out, const struct wire_job_node *n)
{
	char rank[16] = "-";

	if (n->node_rank >= 0)
		snprintf(rank, sizeof(rank), "%d", (int)n->node_rank);
	buf_printf(out, "  node %s  %.*s  %.*s  %s", rank, SLICE_FMT(n->host),
		   SLICE_FMT(n->addr), job_status_node_state_name(n->state));
	if (n->state == WIRE_NODE_RUNS)
		buf_printf(out, "  ranks %u to %u: %u connected, %u ended",
			   n->base_rank, n->base_rank + n->nproc - 1,
			   n->connected, n->exited);
	else
		buf_printf(out, "  %u worker%s", n->nproc,
			   n->nproc == 1 ? "" : "s");
	if (status_has_role(n))
		buf_printf(out, "  role %.*s", SLICE_FMT(n->role));
	if (status_seconds(n->silent_ms) > 1)
		buf_printf(out, "  silent for %llu s",
			   status_seconds(n->silent_ms));
	buf_put(out, "\n", 1);
}

static void status_put_head(struct buf *out, const struct job_status *job)
{
	const struct wire_job *m = &job->as;

	buf_printf(out,
		   "job '%.*s' at %s: %s for %llu s, round %u, attempt %u "
		   "of %u",
		   SLICE_FMT(m->job), job->server,
		   job_status_state_name(m->state),
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

static void status_put_roles(struct buf *out, const struct wire_job *m)
{
	struct slice text = job_roles_text(m);
	const char *between = "  roles ";
	struct job_role role;

	while (job_roles_next(m, &text, &role)) {
		buf_printf(out, "%s%.*s (%.*s%s)", between,
			   SLICE_FMT(role.name), SLICE_FMT(role.ranks),
			   role.is_optional ? "; optional" : "");
		between = ", ";
	}
	if (between[0] == ',')
		buf_put(out, "\n", 1);
}

static void status_put_job(struct buf *out, const struct job_status *job)
{
	const struct wire_job *m = &job->as;
	struct wire_job_node *nodes;
	uint32_t n = job_status_nodes(job, &nodes);

	status_put_head(out, job);
	status_put_roles(out, m);
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
	gpu_status_put(out, SLICE(job->gpus.data, job->gpus.len));
}

static int status_put_all(const struct job_status_list *l, int json,
			  struct buf *out, struct err *e)
{
	if (json)
		return job_status_put_json(out, l, e);
	for (size_t i = 0; i < l->n; i++) {
		if (i)
			buf_put(out, "\n", 1);
		status_put_job(out, &l->jobs[i]);
	}
	return 0;
}

/* ---- the subcommand ---- */

static void status_on_unreachable(void *arg, const char *job,
				  const struct err *e)
{
	log_warn("cannot query the server of job '%s': %s", job, e->text);
}

static int status_log_nothing(const struct status_options *o,
			      const struct job_status_list *l)
{
	char host[SOCK_HOST_MAX];

	sock_host_name(host);
	if (o->server)
		log_error("error: there is no job at %s", o->server);
	else if (!l->unreachable)
		log_error("error: none of your ddpruns on %s is in %s%s%s that "
			  "has a round or waits for one",
			  host, o->job ? "job '" : "a job",
			  o->job ? o->job : "", o->job ? "'" : "");
	return CONTROL_CLIENT_NOTHING;
}

static int status_show(const struct status_options *o,
		       const struct job_status_list *l)
{
	struct buf out = BUF_INIT(TEXT_MAX);
	struct err e = ERR_INIT;
	int rc = l->n ? 0 : status_log_nothing(o, l);

	if ((l->n || o->json) && status_put_all(l, o->json, &out, &e) < 0)
		rc = control_client_fail(&e, EXIT_OS);
	else if (out.len && file_write_all(STDOUT_FILENO, out.data, out.len))
		rc = EXIT_OS;
	buf_release(&out);
	return rc;
}

static int status_run(const struct status_options *o)
{
	const struct job_query q = {
		.job = o->job, .server = o->server, .auth = o->auth,
		.token_file = o->token_file, .timeout_s = o->timeout_s,
		.on_unreachable = status_on_unreachable,
	};
	struct job_status_list l = {.n = 0};
	struct err e = ERR_INIT;
	int rc;

	if (job_query_run(&l, &q, &e) < 0)
		rc = control_client_fail(&e, o->server ? exit_code_of(&e)
						       : EXIT_OS);
	else
		rc = status_show(o, &l);
	job_status_list_release(&l);
	return rc;
}

int status_main(int argc, char **argv)
{
	struct status_options o = {.timeout_s = 5};
	struct err e = ERR_INIT;
	int rc = option_parse(status_options, &o, argc, argv, 0, &e);

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
	return status_run(&o);
}

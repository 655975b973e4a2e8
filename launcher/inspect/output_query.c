/* output_query.c: one DUMP with lines, and the NODE that answers it. */
#include "launcher/inspect/output_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/control_client.h"
#include "launcher/inspect/dump_query.h"
#include "launcher/inspect/local_workers.h"

/* As the job's own processes on this host authenticate. */
static int output_query_local_auth(struct auth *auth, const char *server,
				   const char *job, struct err *e)
{
	struct local_workers local;
	int rc = local_workers_init(&local, job, 0, e);
	size_t i = 0;

	if (rc < 0)
		return rc;
	while (i < local.njobs && strcmp(local.jobs[i]->server, server) != 0)
		i++;
	rc = i < local.njobs
		     ? control_client_job_auth(auth, local.jobs[i], e)
		     : err_set(e, ERR_REFUSED, "job '%s' no longer runs on "
			       "this host", job);
	local_workers_release(&local);
	return rc;
}

static int output_query_take(struct job_output *o, uint32_t rank,
			     const struct dump_node *n, uint32_t timeout_ms,
			     struct err *e)
{
	char late[160];
	struct wire_node_dump m = {
		.host = SLICE_STR(n->host), .text = SLICE_STR(n->text),
		.out = n->out, .err = n->err,
	};

	snprintf(late, sizeof(late), "its agent did not answer within %g s; "
		 "the server last heard from it %.1f s ago",
		 timeout_ms / 1000.0, (double)n->silent_ms / 1000);
	if (!n->answered && !m.text.len)
		m.text = SLICE_STR(late);
	return job_output_init(o, rank, &m) < 0
		       ? err_no_memory(e, "the output of rank %u", rank)
		       : 0;
}

int output_query_run(struct job_output *o, const struct job_query *q,
		     const struct job_status *job, uint32_t rank,
		     uint32_t lines, struct err *e)
{
	const struct wire_dump m = {
		.timeout_ms = (uint32_t)(q->timeout_s * 1000),
		.lines = lines, .rank = rank,
	};
	struct dump_query dump = {NULL};
	struct endpoint at;
	struct auth auth;
	char *id = strndup(job->as.job.data, job->as.job.len);
	int rc;

	*o = (struct job_output){0};
	auth_none(&auth);
	if (!id)
		return err_no_memory(e, "the request");
	rc = endpoint_parse(&at, job->server, CONTROL_CLIENT_PORT, e);
	if (rc == 0 && q->server)
		rc = auth_choose(&auth, q->auth, q->token_file, e);
	else if (rc == 0)
		rc = output_query_local_auth(&auth, job->server, id, e);
	if (rc == 0)
		rc = dump_query_init(&dump, &at, id, &auth, &m, e);
	if (rc == 0 && dump.n)
		rc = output_query_take(o, rank, &dump.nodes[0], m.timeout_ms,
				       e);
	else if (rc == 0)
		rc = err_set(e, ERR_PROTOCOL, "rendezvous server %s sent no "
			     "lines of rank %u", job->server, rank);
	auth_wipe(&auth);
	dump_query_release(&dump);
	free(id);
	return rc;
}

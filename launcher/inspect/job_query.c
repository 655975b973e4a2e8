/* job_query.c: asks servers for their jobs by STATUS. They answer with a JOB
 * for each, and RANKS and GPUS after it. */
#include "launcher/inspect/job_query.h"

#include <string.h>

#include "launcher/inspect/control_client.h"
#include "launcher/inspect/local_workers.h"

/* One question to one server. */
struct job_query_ask {
	struct job_status_list *l;
	const char *server;
	uint32_t timeout_ms;
};

static void job_query_put_request(struct buf *out, uint32_t id,
				   const void *arg)
{
	wire_put_empty(out, WIRE_STATUS, WIRE_REQUEST, id);
}

static int job_query_on_notice(void *arg, const struct wire_frame *f,
			       struct err *e)
{
	const struct job_query_ask *x = arg;

	return job_status_list_add(x->l, x->server, f, e);
}

static int job_query_ask(struct job_query_ask *x, const char *job,
			  const struct auth *auth, struct err *e)
{
	const struct control_request q = {
		.job = job, .auth = auth, .put = job_query_put_request,
		.on_notice = job_query_on_notice, .arg = x,
		.timeout_ms = x->timeout_ms,
	};
	struct endpoint at;
	int rc = endpoint_parse(&at, x->server, CONTROL_CLIENT_PORT, e);

	return rc < 0 ? rc : control_client_request(&at, &q, e);
}

static int job_query_ask_local(struct job_query_ask *x,
				const struct flight_file *job, struct err *e)
{
	struct auth auth;
	int rc = control_client_job_auth(&auth, job, e);

	x->server = job->server;
	if (rc == 0)
		rc = job_query_ask(x, job->job, &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int job_query_ask_server(struct job_query_ask *x,
				 const struct job_query *q,
				 struct err *e)
{
	struct auth auth;
	int rc = auth_choose(&auth, q->auth, q->token_file, e);

	x->server = q->server;
	if (rc == 0)
		rc = job_query_ask(x, q->job ? q->job : "", &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int job_query_is_first(const struct local_workers *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->jobs[k]->job, l->jobs[i]->job) == 0 &&
		    strcmp(l->jobs[k]->server, l->jobs[i]->server) == 0)
			return 0;
	return 1;
}

static int job_query_ask_all_local(struct job_query_ask *x,
				    const struct job_query *q,
				    struct err *e)
{
	struct local_workers local;
	int rc = local_workers_init(&local, q->job, 0, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < local.njobs; i++) {
		const struct flight_file *job = local.jobs[i];

		if (!job->server[0] || !job_query_is_first(&local, i) ||
		    job_query_ask_local(x, job, e) == 0)
			continue;
		x->l->unreachable++;
		if (q->on_unreachable)
			q->on_unreachable(q->arg, job->job, e);
	}
	local_workers_release(&local);
	return 0;
}

int job_query_run(struct job_status_list *l,
			  const struct job_query *q, struct err *e)
{
	struct job_query_ask x = {
		.l = l, .timeout_ms = (uint32_t)(q->timeout_s * 1000),
	};

	return q->server ? job_query_ask_server(&x, q, e)
			 : job_query_ask_all_local(&x, q, e);
}

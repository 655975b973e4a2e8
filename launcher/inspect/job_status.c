/* job_status.c: asks servers for their jobs by STATUS. They answer with a JOB
 * for each, and a RANKS after it. */
#include "launcher/inspect/job_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/control_client.h"
#include "launcher/inspect/local_workers.h"

const char *job_status_state_name(uint8_t state)
{
	static const char *const names[] = {"gathering", "running",
					    "restarting", "over"};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *job_status_node_state_name(uint8_t state)
{
	static const char *const names[] = {
		[WIRE_NODE_RUNS] = "runs", [WIRE_NODE_WAITS] = "waits",
		[WIRE_NODE_STOPS] = "stops", [WIRE_NODE_SPARE] = "spare",
		[WIRE_NODE_GONE] = "gone",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

static int job_status_compare_nodes(const void *pa, const void *pb)
{
	const struct wire_job_node *a = pa, *b = pb;

	/* as unsigned, -1 is the largest */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return 0;
}

uint32_t job_status_nodes(const struct job_status *job,
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
		qsort(*out, n, sizeof(**out), job_status_compare_nodes);
	return n;
}

enum { GPUS_BYTES_MAX = 256 << 20 }; /* for a job */

/* One question to one server. */
struct job_status_ask {
	struct job_status_list *l;
	const char *server;
	uint32_t timeout_ms;
};

static void job_status_put_request(struct buf *out, uint32_t id,
				   const void *arg)
{
	wire_put_empty(out, WIRE_STATUS, WIRE_REQUEST, id);
}

/* A copy of the frame's body, to which *own refers. */
static char *job_status_keep(const struct wire_frame *f, struct wire_frame *own)
{
	char *bytes = malloc(f->body.len + 1);

	if (bytes)
		memcpy(bytes, f->body.data, f->body.len);
	*own = *f;
	own->body.data = bytes;
	return bytes;
}

static int job_status_add_job(const struct job_status_ask *x,
			      const struct wire_frame *f, struct err *e)
{
	struct job_status_list *l = x->l;
	struct job_status *jobs =
		realloc(l->jobs, (l->n + 1) * sizeof(*jobs)), *job;
	struct wire_frame own;

	if (!jobs)
		return err_no_memory(e, "the status");
	l->jobs = jobs;
	job = &jobs[l->n];
	*job = (struct job_status){.bytes = job_status_keep(f, &own),
				   .gpus = BUF_INIT(GPUS_BYTES_MAX)};
	if (!job->bytes)
		return err_no_memory(e, "the status");
	l->n++;
	snprintf(job->server, sizeof(job->server), "%s", x->server);
	return wire_get_job(&own, &job->as, e);
}

/* RANKS follows its JOB. */
static int job_status_add_ranks(const struct job_status_ask *x,
				const struct wire_frame *f, struct err *e)
{
	struct job_status_list *l = x->l;
	struct job_status *job = l->n ? &l->jobs[l->n - 1] : NULL;
	struct wire_frame own;

	if (!job || job->rank_bytes)
		return 0;
	job->rank_bytes = job_status_keep(f, &own);
	if (!job->rank_bytes)
		return err_no_memory(e, "the status");
	return wire_get_ranks(&own, &job->ranks, e);
}

/* So does each GPUS. Without memory they are left out. */
static int job_status_add_gpus(const struct job_status_ask *x,
			       const struct wire_frame *f, struct err *e)
{
	struct job_status_list *l = x->l;
	struct wire_gpus m;
	int rc = wire_get_gpus(f, &m, e);

	if (rc == 0 && l->n)
		wire_put_gpus(&l->jobs[l->n - 1].gpus, WIRE_GPUS, WIRE_NOTICE,
			      0, &m);
	return rc;
}

static int job_status_on_notice(void *arg, const struct wire_frame *f,
				struct err *e)
{
	if (f->type == WIRE_RANKS)
		return job_status_add_ranks(arg, f, e);
	if (f->type == WIRE_GPUS)
		return job_status_add_gpus(arg, f, e);
	return f->type == WIRE_JOB ? job_status_add_job(arg, f, e) : 0;
}

static int job_status_ask(struct job_status_ask *x, const char *job,
			  const struct auth *auth, struct err *e)
{
	const struct control_request q = {
		.job = job, .auth = auth, .put = job_status_put_request,
		.on_notice = job_status_on_notice, .arg = x,
		.timeout_ms = x->timeout_ms,
	};
	struct endpoint at;
	int rc = endpoint_parse(&at, x->server, CONTROL_CLIENT_PORT, e);

	return rc < 0 ? rc : control_client_request(&at, &q, e);
}

static int job_status_ask_local(struct job_status_ask *x,
				const struct flight_file *job, struct err *e)
{
	struct auth auth;
	int rc = control_client_job_auth(&auth, job, e);

	x->server = job->server;
	if (rc == 0)
		rc = job_status_ask(x, job->job, &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int job_status_ask_server(struct job_status_ask *x,
				 const struct job_status_query *q,
				 struct err *e)
{
	struct auth auth;
	int rc = auth_choose(&auth, q->auth, q->token_file, e);

	x->server = q->server;
	if (rc == 0)
		rc = job_status_ask(x, q->job ? q->job : "", &auth, e);
	auth_wipe(&auth);
	return rc;
}

static int job_status_is_first(const struct local_workers *l, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(l->jobs[k]->job, l->jobs[i]->job) == 0 &&
		    strcmp(l->jobs[k]->server, l->jobs[i]->server) == 0)
			return 0;
	return 1;
}

static int job_status_ask_all_local(struct job_status_ask *x,
				    const struct job_status_query *q,
				    struct err *e)
{
	struct local_workers local;
	int rc = local_workers_init(&local, q->job, 0, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < local.njobs; i++) {
		const struct flight_file *job = local.jobs[i];

		if (!job->server[0] || !job_status_is_first(&local, i) ||
		    job_status_ask_local(x, job, e) == 0)
			continue;
		x->l->unreachable++;
		if (q->on_unreachable)
			q->on_unreachable(q->arg, job->job, e);
	}
	local_workers_release(&local);
	return 0;
}

int job_status_list_query(struct job_status_list *l,
			  const struct job_status_query *q, struct err *e)
{
	struct job_status_ask x = {
		.l = l, .timeout_ms = (uint32_t)(q->timeout_s * 1000),
	};

	return q->server ? job_status_ask_server(&x, q, e)
			 : job_status_ask_all_local(&x, q, e);
}

void job_status_list_release(struct job_status_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->jobs[i].bytes);
		free(l->jobs[i].rank_bytes);
		buf_release(&l->jobs[i].gpus);
	}
	free(l->jobs);
	*l = (struct job_status_list){.n = 0};
}

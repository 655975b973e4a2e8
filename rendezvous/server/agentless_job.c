/* agentless_job.c: a job without agents: only its ranks' own connections report
 * them. */
#include "rendezvous/server/hosted_job.h"

#include <stdio.h>
#include <string.h>

enum { KEEPALIVE_S = 60 };

/* To the job they are one node, which has no agent. */
int agentless_job_open(struct server *s, const char *job, uint32_t ranks,
		       struct err *e)
{
	const struct wire_join join = {.node_id = SLICE_STR("guests"),
				       .host = SLICE_STR("guests"),
				       .addr = SLICE_STR("127.0.0.1"),
				       .node_rank = -1,
				       .min_nodes = 1,
				       .max_nodes = 1,
				       .nproc = ranks,
				       .role = SLICE_STR("default")};
	struct hosted_job *h = hosted_job_for_join(s, SLICE_STR(job));
	int rc;

	if (!h)
		return err_no_memory(e, "the job");
	rc = job_join(h->job, &join, NULL, s->endpoint, &h->agentless, e);
	if (rc < 0) {
		hosted_job_free_if_empty(h);
		return rc;
	}
	s->agentless = h;
	hosted_job_act(h);
	return 0;
}

int agentless_job_check(const struct hosted_job *h,
			const struct wire_hello *hello, struct err *e)
{
	const char *end = job_rank_end(h->job, hello->rank);
	const struct peer *p = NULL;

	if (end)
		return err_set(e, ERR_REFUSED, "%s: it cannot rejoin this job",
			       end);
	/* this worker belongs to the next job, whose server will listen soon */
	if (h->server->parent_gone)
		return err_set(e, ERR_REFUSED,
			       "rank 0 of this job has ended already");
	while ((p = hosted_job_next_worker(h, p)))
		if (p->session.rank == hello->rank)
			return err_set(e, ERR_USAGE,
				       "rank %u is already connected, from %s: "
				       "two processes claim this rank",
				       hello->rank, p->host);
	return 0;
}

void agentless_job_joined(struct peer *p, const struct wire_hello *hello)
{
	p->host = strndup(hello->host.data, hello->host.len);
	uv_tcp_keepalive(&p->conn.tcp, 1, KEEPALIVE_S);
}

void agentless_job_left(struct hosted_job *h, struct peer *p, const char *how)
{
	char text[400];

	if (p->has_left)
		return;
	p->has_left = 1;
	snprintf(text, sizeof(text), "rank %u on %.255s %s", p->session.rank,
		 p->host ? p->host : "?", how);
	job_guest_left(h->job, h->agentless, p->session.rank, text);
	hosted_job_act(h);
}

int agentless_job_is_over(const struct hosted_job *h)
{
	return job_state(h->job) == JOB_OVER;
}

void agentless_job_close(struct hosted_job *h)
{
	job_lost(h->job, h->agentless, "its ranks have left");
	h->agentless = NULL;
	hosted_job_act(h);
	hosted_job_free_if_empty(h);
}

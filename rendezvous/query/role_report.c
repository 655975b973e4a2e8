/* role_report.c: passes ROLE_NEWS on. */
#include "rendezvous/query/role_report.h"

int role_report_pass(struct peer *agent, const struct wire_frame *f,
		     struct err *e)
{
	struct hosted_job *h = agent->hosted;
	struct wire_role_news m;
	struct job_node *n = NULL;
	int rc = wire_get_role_news(f, &m, e);

	if (rc < 0)
		return rc;
	if (m.text.len > WIRE_NAME_MAX)
		return err_set(e, ERR_PROTOCOL,
			       "ROLE_NEWS: its text is too long");
	if (!h || !agent->node || job_state(h->job) != JOB_RUNNING ||
	    m.round != job_round(h->job) ||
	    job_rank_owner(h->job, m.rank) != agent)
		return 0;
	m.node_rank = (uint32_t)job_node_rank(agent->node);
	m.host = SLICE_STR(job_node_host(agent->node));
	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (to && job_node_runs(n))
			wire_put_role_news(conn_out(&to->conn), WIRE_ROLE_NEWS,
					   WIRE_NOTICE, 0, &m);
	}
	return 0;
}

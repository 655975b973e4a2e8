/* guests.c: a job whose ranks nobody reports but their own connections. */
#include "rendezvous/server/guests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEEPALIVE_S = 60 };

/* To the job they are one node, which nobody stands for. */
int guests_open(struct server *s, const char *job, uint32_t ranks,
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
	struct hosted *h = hosted_for_join(s, SLICE_STR(job));
	int rc;

	if (!h)
		return err_set(e, -ENOMEM, "out of memory");
	rc = job_join(h->job, &join, NULL, s->endpoint, &h->guests, e);
	if (rc < 0) {
		hosted_free_if_empty(h);
		return rc;
	}
	s->guests = h;
	hosted_act(h);
	return 0;
}

int guests_check(const struct hosted *h, const struct wire_hello *hello,
		 struct err *e)
{
	const char *end = job_rank_end(h->job, hello->rank);
	const struct member *m;

	if (end)
		return err_set(e, ERR_REFUSED,
			       "%s: it cannot come again to this job", end);
	/* its own server is another, which will be there soon */
	if (h->server->parent_gone)
		return err_set(e, ERR_REFUSED,
			       "rank 0 of this job has ended already");
	for (m = h->workers; m; m = m->worker_next)
		if (m->session.rank == hello->rank)
			return err_set(e, ERR_USAGE,
				       "rank %u is here already, on %s: two "
				       "processes say that they are this rank",
				       hello->rank, m->host);
	return 0;
}

void guests_came(struct member *m, const struct wire_hello *hello)
{
	m->host = strndup(hello->host.data, hello->host.len);
	uv_tcp_keepalive(&m->conn.tcp, 1, KEEPALIVE_S);
}

void guests_left(struct hosted *h, struct member *m, const char *how)
{
	char text[400];

	if (m->left)
		return;
	m->left = 1;
	snprintf(text, sizeof(text), "rank %u on %.255s %s", m->session.rank,
		 m->host ? m->host : "?", how);
	job_guest_left(h->job, h->guests, m->session.rank, text);
	hosted_act(h);
}

int guests_all_gone(const struct hosted *h)
{
	return job_state(h->job) == JOB_OVER;
}

void guests_close(struct hosted *h)
{
	job_lost(h->job, h->guests, "its ranks have gone");
	h->guests = NULL;
	hosted_act(h);
	hosted_free_if_empty(h);
}

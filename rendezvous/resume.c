/* resume.c: RESUME and those who never send it. */
#include "rendezvous/resume.h"

#include "rendezvous/event.h"
#include "rendezvous/torch_home.h"

/* A job that is over may not have its name any more. */
static struct job_node *find(struct server *s, struct slice job,
			     struct slice node, struct hosted **out)
{
	struct table_item *at = NULL;
	struct job_node *n = NULL;

	*out = hosted_find(s, job);
	if (*out)
		n = job_find_node((*out)->job, node);
	while (!n && (at = table_next(&s->history.by_number, at))) {
		*out = hosted_of_number(at);
		if ((*out)->item.key.len == job.len &&
		    !memcmp((*out)->item.key.data, job.data, job.len))
			n = job_find_node((*out)->job, node);
	}
	return n;
}

static struct job_node *next_absent(const struct hosted *h)
{
	struct job_node *n = NULL;

	while ((n = job_next_node(h->job, n)))
		if (!job_node_owner(n))
			return n;
	return NULL;
}

/* Its connection before may not have ended yet. */
static void replace(struct hosted *h, struct job_node *n, struct member *m)
{
	struct member *other = job_node_owner(n);

	if (other) {
		voucher_forget(h, other);
		other->node = NULL;
		other->hosted = NULL;
		conn_drop(&other->conn);
	}
	job_node_own(n, m);
}

/* What the job has said while it was away, and what it has not heard of. */
static void catch_up(struct hosted *h, struct job_node *n, struct member *m,
		     const struct wire_resume *from)
{
	const struct wire_end *last = job_end(h->job);
	enum job_state state = job_state(h->job);
	struct wire_end end;
	struct wire_stop stop;

	if (job_node_runs(n) && !(from->began && !from->ended &&
				  from->round == job_round(h->job)))
		hosted_tell_start(h, n);
	if ((state == JOB_OVER || (from->began && !from->ended &&
				   from->round == last->round)) &&
	    last->text.len && !job_node_runs(n) &&
	    job_end_for(h->job, n, &end)) {
		wire_put_end(conn_out(&m->conn), WIRE_END, WIRE_NOTICE, 0,
			     &end);
		if (state == JOB_OVER) {
			m->close_at = uv_now(h->server->loop) + MOMENT_MS;
			conn_due(&m->conn, uv_now(h->server->loop) + 1);
		}
	}
	if (state != JOB_OVER && job_stop_for(h->job, n, &stop) && stop.level)
		wire_put_stop(conn_out(&m->conn), WIRE_STOP, WIRE_NOTICE, 0,
			      &stop);
	if (job_node_waits(h->job, n))
		hosted_tell_state(h);
}

/* It is the node's agent from now on; < 0: nothing is as if it had come. */
static int take_node(struct hosted *h, struct job_node *n, struct member *m,
		     const struct wire_resume *from, struct err *e)
{
	struct addr_owner addrs = {NULL};
	int rc = voucher_prepare(h, m, &from->addrs, &addrs, e);

	if (rc < 0)
		return rc;
	m->node = n;
	replace(h, n, m);
	m->hosted = h;
	voucher_settle(h, m, &addrs);
	m->lease_ms = job_node_lease(n) ? job_node_lease(n)
					: m->server->lease_ms;
	conn_due(&m->conn, m->conn.heard + m->lease_ms);
	return 0;
}

int resume_take(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct wire_resume from;
	struct wire_resumed reply = {.text = SLICE_STR("")};
	struct hosted *h;
	struct job_node *n;
	char text[ERR_TEXT_MAX];
	int rc = wire_get_resume(f, &from, e);

	if (rc < 0)
		return rc;
	if (m->node)
		return err_set(e, ERR_PROTOCOL, "RESUME after a JOIN");
	n = find(m->server, SLICE_STR(m->job_id), from.node_id, &h);
	if (n) {
		rc = take_node(h, n, m, &from, e);
		if (rc < 0)
			return rc;
		reply.known = 1;
		reply.joined = (uint8_t)(job_node_joined(n) ||
					 job_node_is_spare(n));
		reply.heard = job_node_said(n);
	} else {
		snprintf(text, sizeof text, "the rendezvous server at %s knows "
			 "no such node of job '%s'", m->server->endpoint,
			 m->job_id);
		reply.text = SLICE_STR(text);
	}
	wire_put_resumed(conn_out(&m->conn), f->type, WIRE_REPLY, f->id,
			 &reply);
	if (!n)
		return 0;
	catch_up(h, n, m, &from);
	if (!next_absent(h))
		torch_home_begin(h);
	return 0;
}

/* ---- those who do not come ---- */

static void on_back(uv_timer_t *t)
{
	struct hosted *h = t->data;
	struct job_node *n;

	while ((n = next_absent(h))) {
		event_lost(h, n, "its agent did not come back to the "
			   "rendezvous server after that was restarted");
		hosted_act(h);
	}
	torch_home_begin(h);
	hosted_free_if_empty(h);
	conn_flush_all(&h->server->pool);
}

void resume_expect(struct hosted *h)
{
	struct job_node *n = NULL;
	uint64_t longest = 0, lease;

	torch_home_open_again(h);
	while ((n = job_next_node(h->job, n))) {
		lease = job_node_lease(n);
		lease = lease ? lease : h->server->lease_ms;
		longest = lease > longest ? lease : longest;
	}
	uv_timer_start(&h->back_timer, on_back, longest + BACK_MS, 0);
}

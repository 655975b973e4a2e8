/* resume.c: handles RESUME, and nodes that do not send it in time. */
#include "rendezvous/recovery/recovery.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/query/query.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/vouching/voucher.h"

/* Added to the lease: an agent that looks for the server may first try a
 * stopped server, which does not reply. */
enum { RESUME_RESTART_MS = 5000 };

/* A node whose agent is not connected. */
struct absent {
	struct absent *next;
	struct job_node *node;
	uint64_t until; /* loop time; then the node is lost */
	char why[];
};

static struct absent *resume_remove_absent(struct hosted_job *h,
					   const struct job_node *n)
{
	struct absent **p = &h->absent, *a;

	while (*p && (*p)->node != n)
		p = &(*p)->next;
	a = *p;
	if (a)
		*p = a->next;
	return a;
}

/* Also searches jobs that are over, whose name another job may have. */
static struct job_node *resume_find_node(struct server *s, struct slice job,
					 struct slice node,
					 struct hosted_job **out)
{
	struct hosted_job *h = server_find_named_job(s, job);
	struct job_node *n = h ? job_find_node(h->job, node) : NULL;

	*out = h;
	h = NULL;
	while (!n && (h = server_next_job(s, h))) {
		*out = h;
		if (h->item.key.len == job.len &&
		    !memcmp(h->item.key.data, job.data, job.len))
			n = job_find_node(h->job, node);
	}
	return n;
}

/* Drops the agent's former connection, if it has not ended yet. */
static void resume_replace_agent(struct hosted_job *h, struct job_node *n,
				 struct peer *p)
{
	struct peer *other = job_node_owner(n);

	if (other) {
		voucher_forget(h, other);
		other->node = NULL;
		other->hosted = NULL;
		conn_drop(&other->conn);
	}
	free(resume_remove_absent(h, n));
	job_node_own(n, p);
}

/* Sends the agent what it missed. */
static void resume_catch_up(struct hosted_job *h, struct job_node *n,
			    struct peer *p, const struct wire_resume *from)
{
	const struct wire_end *last = job_end(h->job);
	enum job_state state = job_state(h->job);
	struct wire_end end;
	struct wire_stop stop;

	if (job_node_runs(n) &&
	    !(from->began && !from->ended && from->round == job_round(h->job)))
		hosted_job_send_start(h, n);
	if ((state == JOB_OVER ||
	     (from->began && !from->ended && from->round == last->round)) &&
	    last->text.len && !job_node_runs(n) &&
	    job_end_for(h->job, n, &end)) {
		wire_put_end(conn_out(&p->conn), WIRE_END, WIRE_NOTICE, 0,
			     &end);
		if (state == JOB_OVER) {
			p->close_at = uv_now(h->server->loop) + SERVER_CLOSE_MS;
			conn_due(&p->conn, uv_now(h->server->loop) + 1);
		}
	}
	if (state != JOB_OVER && job_stop_for(h->job, n, &stop) && stop.level)
		wire_put_stop(conn_out(&p->conn), WIRE_STOP, WIRE_NOTICE, 0,
			      &stop);
	if (job_node_waits(h->job, n))
		hosted_job_send_state(h);
}

/* Makes p the node's agent. < 0: nothing has changed. */
static int resume_take_over(struct hosted_job *h, struct job_node *n,
			    struct peer *p, const struct wire_resume *from,
			    struct err *e)
{
	struct addr_owner addrs = {NULL};
	int rc = voucher_prepare(h, p, &from->addrs, &addrs, e);

	if (rc < 0)
		return rc;
	p->node = n;
	resume_replace_agent(h, n, p);
	p->hosted = h;
	conn_charge_to(&p->conn, h->account, sizeof(*p));
	voucher_settle(h, p, &addrs);
	p->lease_ms =
		job_node_lease(n) ? job_node_lease(n) : p->server->lease_ms;
	conn_due(&p->conn, p->conn.heard + p->lease_ms);
	return 0;
}

static const struct lost_node *resume_find_lost(const struct hosted_job *h,
						struct slice node)
{
	const struct lost_node *l = h ? h->lost : NULL;

	while (l && (strlen(l->id) != node.len ||
		     memcmp(l->id, node.data, node.len)))
		l = l->next;
	return l;
}

/* Sets why the node is unknown, in reply and text. */
static void resume_explain_unknown(struct peer *p,
				   const struct wire_resume *from, char *text,
				   size_t size, struct wire_resumed *reply)
{
	struct server *s = p->server;
	const struct hosted_job *h =
		server_find_named_job(s, SLICE_STR(p->job_id));
	const struct lost_node *l = resume_find_lost(h, from->node_id);
	const char *end =
		h ? NULL
		  : finished_jobs_find(&s->finished, SLICE_STR(p->job_id),
				       from->round);

	if (h && job_state(h->job) == JOB_OVER)
		end = job_end(h->job)->text.data;
	if (end) {
		reply->known = WIRE_OVER;
		snprintf(text, size, "the job has ended meanwhile: %.500s",
			 end);
	} else if (l) {
		reply->known = WIRE_LOST;
		snprintf(text, size,
			 "the rendezvous server at %s counted this "
			 "node as lost: %.500s",
			 s->endpoint, l->why);
	} else {
		snprintf(text, size,
			 "the rendezvous server at %s does not know this node "
			 "of job '%s'",
			 s->endpoint, p->job_id);
	}
	reply->text = SLICE_STR(text);
}

static void resume_reply(struct peer *p, const struct wire_frame *f,
			 const struct wire_resumed *reply)
{
	wire_put_resumed(conn_out(&p->conn), f->type, WIRE_REPLY, f->id, reply);
}

int resume_take(struct peer *p, const struct wire_frame *f, struct err *e)
{
	struct wire_resume from;
	struct wire_resumed reply = {.text = SLICE_STR("")};
	struct hosted_job *h;
	struct job_node *n;
	char text[ERR_TEXT_MAX];
	int rc = wire_get_resume(f, &from, e);

	if (rc < 0)
		return rc;
	if (p->node)
		return err_set(e, ERR_PROTOCOL, "RESUME after a JOIN");
	n = resume_find_node(p->server, SLICE_STR(p->job_id), from.node_id, &h);
	if (!n) {
		resume_explain_unknown(p, &from, text, sizeof(text), &reply);
		resume_reply(p, f, &reply);
		return 0;
	}
	hosted_job_end_look(h); /* END must not reach this node twice */
	rc = resume_take_over(h, n, p, &from, e);
	if (rc < 0)
		return rc;
	reply.known = WIRE_KNOWN;
	reply.joined = (uint8_t)(job_node_joined(n) || job_node_is_spare(n));
	reply.heard = job_node_notices(n);
	resume_reply(p, f, &reply);
	resume_catch_up(h, n, p, &from);
	if (!h->absent)
		torch_home_begin(h);
	return 0;
}

/* ---- nodes that do not come back ---- */

static void resume_on_timer(uv_timer_t *t);

/* Starts the timer for the first absent node. */
static void resume_start_timer(struct hosted_job *h)
{
	uint64_t now = uv_now(h->server->loop);

	if (h->absent)
		uv_timer_start(
			&h->back_timer, resume_on_timer,
			h->absent->until > now ? h->absent->until - now : 0, 0);
}

static void resume_on_timer(uv_timer_t *t)
{
	struct hosted_job *h = t->data;
	struct absent *a;

	while ((a = h->absent) && a->until <= uv_now(h->server->loop)) {
		h->absent = a->next;
		if (!job_node_owner(a->node)) {
			job_event_lost(h, a->node, a->why);
			hosted_job_act(h);
		}
		free(a);
	}
	if (!h->absent)
		torch_home_begin(h);
	resume_start_timer(h);
	hosted_job_free_if_empty(h);
	conn_flush_all(&h->server->pool);
}

/* The node is lost at `until`, for that reason. 0 or -ENOMEM. */
static int resume_add_absent(struct hosted_job *h, struct job_node *n,
			     uint64_t until, const char *why)
{
	struct absent **p = &h->absent;
	struct absent *a = malloc(sizeof(*a) + strlen(why) + 1);

	if (!a)
		return -ENOMEM;
	a->node = n;
	a->until = until;
	memcpy(a->why, why, strlen(why) + 1);
	while (*p && (*p)->until <= until)
		p = &(*p)->next;
	a->next = *p;
	*p = a;
	return 0;
}

static uint64_t resume_longest_lease(const struct hosted_job *h)
{
	struct job_node *n = NULL;
	uint64_t longest = 0, lease;

	while ((n = job_next_node(h->job, n))) {
		lease = job_node_lease(n);
		lease = lease ? lease : h->server->lease_ms;
		longest = lease > longest ? lease : longest;
	}
	return longest;
}

void resume_expect(struct hosted_job *h)
{
	uint64_t ms = resume_longest_lease(h) + RESUME_RESTART_MS;
	uint64_t until = uv_now(h->server->loop) + ms;
	struct job_node *n, *next;

	torch_home_open_again(h);
	for (n = job_next_node(h->job, NULL); n; n = next) {
		next = job_next_node(h->job, n);
		if (job_node_owner(n) ||
		    resume_add_absent(h, n, until,
				      "its agent did not reconnect after the "
				      "rendezvous server was restarted") == 0)
			continue;
		job_event_lost(h, n, "the rendezvous server is out of memory");
		hosted_job_act(h);
	}
	uv_timer_start(&h->back_timer, resume_on_timer, ms, 0);
}

/* False for nodes that have left, or whose job is over. */
static int resume_may_come_back(const struct peer *p)
{
	return p->role == WIRE_AGENT && p->node && p->hosted && !p->close_at &&
	       !p->server->draining && job_state(p->hosted->job) != JOB_OVER &&
	       !job_node_has_left(p->node);
}

int resume_await(struct peer *p, const char *why)
{
	struct hosted_job *h = p->hosted;
	uint64_t ms =
		p->lease_ms < RESUME_RESET_MS ? p->lease_ms : RESUME_RESET_MS;
	char text[200];

	snprintf(text, sizeof(text),
		 "%.120s, and it did not come back within "
		 "%g s",
		 why, (double)ms / 1e3);
	if (!resume_may_come_back(p) ||
	    resume_add_absent(h, p->node, uv_now(h->server->loop) + ms, text) <
		    0)
		return 0;
	log_debug("job '%s': the agent on %s: %s; it has %g s to come back",
		  job_id(h->job), job_node_host(p->node), why,
		  (double)ms / 1e3);
	dump_forget(p, why);
	voucher_forget(h, p);
	job_node_own(p->node, NULL);
	p->node = NULL;
	p->hosted = NULL;
	resume_start_timer(h);
	return 1;
}

/* ---- lost nodes ---- */

static size_t resume_lost_node_bytes(const struct lost_node *l)
{
	return sizeof(*l) + strlen(l->why) + 1 + strlen(l->id) + 1;
}

static void resume_lost_node_free(struct hosted_job *h, struct lost_node *l)
{
	account_sub(h->account, resume_lost_node_bytes(l));
	free(l->id);
	free(l);
}

static void resume_forget_oldest(struct hosted_job *h)
{
	struct lost_node **p = &h->lost;

	for (int i = 0; *p && i < RESUME_LOST_MAX; i++)
		p = &(*p)->next;
	if (!*p)
		return;
	resume_lost_node_free(h, *p);
	*p = NULL;
}

void resume_remember(struct hosted_job *h, struct slice id, const char *why)
{
	struct lost_node *l = malloc(sizeof(*l) + strlen(why) + 1);

	if (l)
		l->id = strndup(id.data, id.len);
	if (!l || !l->id) { /* out of memory: its agent does not learn why */
		free(l);
		return;
	}
	memcpy(l->why, why, strlen(why) + 1);
	account_add(h->account, resume_lost_node_bytes(l));
	l->next = h->lost;
	h->lost = l;
	resume_forget_oldest(h);
}

void resume_lost(struct hosted_job *h, const struct job_node *n,
		 const char *why)
{
	free(resume_remove_absent(h, n));
	resume_remember(h, job_node_id(n), why);
}

void resume_release(struct hosted_job *h)
{
	struct absent *a;
	struct lost_node *l;

	while ((a = h->absent)) {
		h->absent = a->next;
		free(a);
	}
	while ((l = h->lost)) {
		h->lost = l->next;
		resume_lost_node_free(h, l);
	}
}

/* request.c: a handler for each message, and a table of which role may send it.
 * job.c decides what it does to a job, session.c what it does to a store. */
#include "rendezvous/admission/admission.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/election/leadership.h"
#include "rendezvous/query/query.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/limits.h"
#include "rendezvous/vouching/voucher.h"

/* Passes it on to all agents of the round, with the agent's node. In no
 * journal: a worker that is left out has an EXITED as well. */
static int request_pass_role_news(struct peer *agent,
				  const struct wire_frame *f, struct err *e)
{
	struct hosted_job *h = agent->hosted;
	struct wire_role_news m;
	struct job_node *n = NULL;
	struct peer *to;
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
	while ((to = hosted_job_next_agent(h, &n)))
		wire_put_role_news(conn_out(&to->conn), WIRE_ROLE_NEWS,
				   WIRE_NOTICE, 0, &m);
	return 0;
}

/* < 0: send an error reply; ERR_PROTOCOL: close */
typedef int handler(struct peer *p, const struct wire_frame *f, struct err *e);

static int request_reply_empty(struct peer *p, const struct wire_frame *f)
{
	wire_put_empty(conn_out(&p->conn), f->type, WIRE_REPLY, f->id);
	return 0;
}

static int request_is_other_job(const struct peer *p, struct slice job)
{
	const char *only = p->server->only_job;

	return only &&
	       (strlen(only) != job.len || memcmp(only, job.data, job.len));
}

static int request_check_hello(const struct wire_hello *hello, struct err *e)
{
	for (size_t i = 0; i < hello->job.len; i++)
		if ((unsigned char)hello->job.data[i] < 0x20)
			return err_set(e, ERR_PROTOCOL,
				       "HELLO: the job id is not printable");
	if (hello->role < WIRE_AGENT || hello->role > WIRE_TOOL)
		return err_set(e, ERR_PROTOCOL, "HELLO: role %u does not exist",
			       hello->role);
	return 0;
}

static int request_admit_agent(struct peer *p, const struct wire_hello *hello,
			       struct err *e)
{
	if (p->server->agentless)
		return err_set(e, ERR_REFUSED,
			       "the server at %s serves a job without agents",
			       p->server->endpoint);
	if (request_is_other_job(p, hello->job))
		return err_set(e, ERR_REFUSED,
			       "the server at %s only serves another job",
			       p->server->endpoint);
	p->job_id = strndup(hello->job.data, hello->job.len);
	p->host = strndup(hello->host.data, hello->host.len);
	if (!p->job_id)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	p->lease_ms = p->server->lease_ms;
	conn_due(&p->conn, p->conn.heard + p->lease_ms);
	return 0;
}

int request_admit(struct peer *p, const struct wire_hello *hello, struct err *e)
{
	int rc = request_check_hello(hello, e);

	/* Refuse agents: they reconnect to the next server. Workers still learn
	 * how their round ended. */
	if (rc == 0 && (p->server->draining ||
			(p->server->is_ending && hello->role == WIRE_AGENT)))
		rc = err_set(e, ERR_ABORTED,
			     "the rendezvous server at %s is stopping",
			     p->server->endpoint);
	if (rc == 0 && p->is_refused)
		rc = limits_full(p->server, e);
	if (rc == 0 && p->server->leadership)
		rc = leadership_check(p->server->leadership, e);
	if (rc == 0)
		rc = limits_check_tenant(p, hello->job, e);
	if (rc < 0) {
		p->server->counts.refused_hello++;
		return rc;
	}
	if (hello->role == WIRE_WORKER)
		rc = hosted_job_admit_worker(p, hello, e);
	else if (hello->role == WIRE_TOOL)
		rc = dump_hello(p, hello, e);
	else
		rc = request_admit_agent(p, hello, e);
	if (rc < 0)
		return rc;
	p->role = hello->role;
	conn_accept(&p->conn);
	return 0;
}

/* A connection belongs to one node, even after that has left. */
static int request_check_node(const struct peer *p,
			      const struct wire_join *join, struct err *e)
{
	struct slice own;

	if (!p->node)
		return 0;
	own = job_node_id(p->node);
	if (own.len == join->node_id.len &&
	    !memcmp(own.data, join->node_id.data, own.len))
		return 0;
	return err_set(e, ERR_PROTOCOL,
		       "JOIN as node %.*s on the connection "
		       "of node %.*s",
		       SLICE_FMT(join->node_id), SLICE_FMT(own));
}

/* The job to join; NULL with e: refused. */
static struct hosted_job *request_job_to_join(struct peer *p, struct err *e)
{
	struct server *s = p->server;
	struct hosted_job *h = server_find_named_job(s, SLICE_STR(p->job_id));
	int rc;

	if (p->hosted)
		return p->hosted;
	rc = h ? limits_check_client(h, e) : limits_check_job(s, p->job_id, e);
	if (rc < 0)
		return NULL;
	h = hosted_job_for_join(s, SLICE_STR(p->job_id));
	if (!h)
		err_set(e, -ENOMEM, "the rendezvous server is out of memory");
	return h;
}

/* Does what can fail first: once the job has taken the node, the event is
 * recorded and final. */
static int request_join_job(struct peer *p, struct hosted_job *h,
			    const struct wire_frame *f,
			    const struct wire_join *j, struct err *e)
{
	struct addr_owner addrs = {NULL};
	int rc = voucher_prepare(h, p, &j->addrs, &addrs, e);

	if (rc < 0)
		return rc;
	rc = job_event_take(h, &p->node, p, f, e);
	if (rc < 0)
		voucher_drop(&h->vouchers, &addrs);
	else
		voucher_settle(h, p, &addrs);
	return rc;
}

/* The job ended before this node joined, as may happen to a spare that was not
 * needed. */
static int request_is_too_late(const struct peer *p, const struct hosted_job *h)
{
	return !p->hosted && job_state(h->job) == JOB_OVER;
}

static int request_reply_too_late(struct peer *p, const struct hosted_job *h,
				  const struct wire_frame *f)
{
	uint64_t now = uv_now(p->server->loop);

	request_reply_empty(p, f);
	wire_put_end(conn_out(&p->conn), WIRE_END, WIRE_NOTICE, 0,
		     job_end(h->job));
	p->close_at = now + SERVER_CLOSE_MS;
	conn_due(&p->conn, now + 1);
	return 0;
}

static int request_on_join(struct peer *p, const struct wire_frame *f,
			   struct err *e)
{
	struct hosted_job *h;
	struct wire_join j;
	int rc = wire_get_join(f, &j, e);

	if (rc == 0)
		rc = request_check_node(p, &j, e);
	if (rc < 0)
		return rc;
	h = request_job_to_join(p, e);
	if (!h)
		return e->code;
	if (request_is_too_late(p, h))
		return request_reply_too_late(p, h, f);
	rc = request_join_job(p, h, f, &j, e);
	if (rc < 0) {
		hosted_job_free_if_empty(h);
		return rc;
	}
	p->hosted = h;
	conn_charge_to(&p->conn, h->account, sizeof(*p));
	p->waited = (struct waited){.since = uv_now(p->server->loop)};
	p->lease_ms = j.lease_ms ? j.lease_ms : p->server->lease_ms;
	peer_extend_lease(p);
	conn_due(&p->conn, p->conn.heard + p->lease_ms);
	/* the reply waits for STATE or START, so that each of a thousand nodes
	 * that join at once gets one packet */
	wire_put_empty(conn_out_later(&p->conn), f->type, WIRE_REPLY, f->id);
	hosted_job_send_state(h);
	if (p->server->jobs_end)
		job_event_stopped(h, p->server->why);
	hosted_job_act(h);
	return 0;
}

static int request_apply_event(struct peer *p, const struct wire_frame *f,
			       struct err *e)
{
	int rc;

	if (f->type != WIRE_EXITED)
		stall_report_release_exits(p->hosted);
	else if (stall_report_on_exited(p, f))
		return 0;
	rc = job_event_take(p->hosted, &p->node, p, f, e);

	/* also if memory was short: the job may have to end */
	if (rc != ERR_PROTOCOL)
		hosted_job_act(p->hosted);
	return rc;
}

/* EXITED, FAILED: a node reports on its workers. */
static int request_on_event(struct peer *p, const struct wire_frame *f,
			    struct err *e)
{
	if (p->node)
		return request_apply_event(p, f, e);
	return err_set(e, ERR_PROTOCOL, "%s from an agent that has not joined",
		       wire_type_name(f->type));
}

/* LEAVE, STOP: ignored from a node that has not joined. */
static int request_on_leave(struct peer *p, const struct wire_frame *f,
			    struct err *e)
{
	return p->node ? request_apply_event(p, f, e) : 0;
}

/* The reply does not depend on the journal, so it does not wait for etcd: a
 * slow etcd must not make this server look dead. */
static int request_on_ping(struct peer *p, const struct wire_frame *f,
			   struct err *e)
{
	struct buf b = BUF_INIT(WIRE_HEADER_SIZE);
	int is_sent;

	if (!p->server->leadership ||
	    !leadership_is_sure(p->server->leadership))
		return request_reply_empty(p, f);
	wire_put_empty(&b, f->type, WIRE_REPLY, f->id);
	is_sent = !b.failed && conn_send_unheld(&p->conn, SLICE(b.data, b.len));
	buf_release(&b);
	return is_sent ? 0 : request_reply_empty(p, f);
}

static int request_on_session(struct peer *p, const struct wire_frame *f,
			      struct err *e)
{
	int rc = session_request(&p->session, f, e);

	if (p->hosted)
		store_answer_all(p->hosted->store);
	if (p->session.nparked)
		wait_report_begin(p->server);
	return rc;
}

/* Only for jobs without agents; else the agent reports how its ranks end. */
static int request_on_goodbye(struct peer *p, const struct wire_frame *f,
			      struct err *e)
{
	if (p->hosted && p->hosted->agentless)
		agentless_job_left(p->hosted, p, "left with ddp_finalize");
	return 0;
}

/* The role and kind that a message must have. Role 0 is a client before its
 * HELLO. */
struct rule {
	int role;
	enum wire_kind kind;
	handler *run;
};

static const struct rule rules[] = {
	[WIRE_HELLO] = {0, WIRE_REQUEST, admission_hello},
	[WIRE_JOIN] = {WIRE_AGENT, WIRE_REQUEST, request_on_join},
	[WIRE_EXITED] = {WIRE_AGENT, WIRE_NOTICE, request_on_event},
	[WIRE_FAILED] = {WIRE_AGENT, WIRE_NOTICE, request_on_event},
	[WIRE_LEAVE] = {WIRE_AGENT, WIRE_NOTICE, request_on_leave},
	[WIRE_STOP] = {WIRE_AGENT, WIRE_NOTICE, request_on_leave},
	[WIRE_RESUME] = {WIRE_AGENT, WIRE_REQUEST, resume_take},
	[WIRE_PROGRESS] = {WIRE_AGENT, WIRE_NOTICE, stall_report_take},
	[WIRE_GPUS] = {WIRE_AGENT, WIRE_NOTICE, gpu_report_take},
	[WIRE_GPU_NEWS] = {WIRE_AGENT, WIRE_NOTICE, gpu_report_pass},
	[WIRE_ROLE_NEWS] = {WIRE_AGENT, WIRE_NOTICE, request_pass_role_news},
	[WIRE_STACK] = {WIRE_AGENT, WIRE_NOTICE, stall_report_take_stack},
	[WIRE_VOUCHED] = {WIRE_AGENT, WIRE_NOTICE, voucher_answer},
	[WIRE_PING] = {WIRE_AGENT, WIRE_REQUEST, request_on_ping},
	[WIRE_GOODBYE] = {WIRE_WORKER, WIRE_NOTICE, request_on_goodbye},
	[WIRE_DUMP] = {WIRE_TOOL, WIRE_REQUEST, dump_start},
	[WIRE_STATUS] = {WIRE_TOOL, WIRE_REQUEST, status_take},
	[WIRE_DUMP_REPLY] = {WIRE_AGENT, WIRE_NOTICE, dump_page},
};

static struct rule request_rule_for(enum wire_type type)
{
	if (session_takes(type))
		return (struct rule){WIRE_WORKER, WIRE_REQUEST,
				     request_on_session};
	if ((size_t)type < sizeof(rules) / sizeof(rules[0]))
		return rules[type];
	return (struct rule){0, 0, NULL};
}

static int request_check_rule(const struct peer *p, const struct rule *r,
			      const struct wire_frame *f, struct err *e)
{
	static const char *const who[] = {"an unauthenticated client",
					  "an agent", "a worker", "a tool"};

	if (r->run && r->role == p->role && r->kind == f->kind)
		return 0;
	return err_set(e, ERR_PROTOCOL, "%s, kind %d, from %s: not allowed",
		       wire_type_name(f->type), (int)f->kind, who[p->role]);
}

/* The nodes that wait for this one must learn that it will not join: the
 * server's log is on the terminal of the ddprun that started it. */
static void request_log_refused_node(struct peer *p, const struct err *e)
{
	char why[ERR_TEXT_MAX + 32];

	snprintf(why, sizeof(why), "it may not join: %s", e->text);
	admission_log_strange(p, why);
}

void request_take(struct peer *p, const struct wire_frame *f)
{
	struct rule r = request_rule_for(f->type);
	struct err e;
	struct wire_error reply;
	char why[ERR_TEXT_MAX + 32];
	int rc;

	err_init(&e);
	rc = request_check_rule(p, &r, f, &e);
	p->server->counts.requests[f->type]++;
	if (rc == 0)
		rc = r.run(p, f, &e);
	if (rc == ERR_PROTOCOL) {
		snprintf(why, sizeof(why), "it violated the protocol: %s",
			 e.text);
		conn_refuse(&p->conn, rc, e.text);
		/* a request to munge or etcd may be under way */
		admission_leave(p);
		standby_forget(p);
		peer_lose(p, why);
	} else if (rc < 0) {
		reply = (struct wire_error){rc, SLICE_STR(e.text)};
		wire_put_error(conn_out(&p->conn), f->type, WIRE_ERROR_REPLY,
			       f->id, &reply);
		if (f->type == WIRE_JOIN && rc == ERR_REFUSED)
			request_log_refused_node(p, &e);
	}
}

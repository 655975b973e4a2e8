/* request.c: a handler for each message, and a table of who may send it. What
 * it does to a job is round.c's, to a store session.c's. */
#include "rendezvous/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/dump.h"
#include "rendezvous/guests.h"
#include "rendezvous/limits.h"
#include "rendezvous/place.h"
#include "rendezvous/resume.h"
#include "rendezvous/status.h"
#include "rendezvous/waits.h"

/* < 0 is an error reply, ERR_PROTOCOL the end */
typedef int handler(struct member *m, const struct wire_frame *f,
		    struct err *e);

static int reply_empty(struct member *m, const struct wire_frame *f)
{
	wire_put_empty(conn_out(&m->conn), f->type, WIRE_REPLY, f->id);
	return 0;
}

static int is_another(const struct member *m, struct slice job)
{
	const char *only = m->server->only_job;

	return only && (strlen(only) != job.len ||
			memcmp(only, job.data, job.len));
}

static int check_hello(const struct wire_hello *hello, struct err *e)
{
	for (size_t i = 0; i < hello->job.len; i++)
		if ((unsigned char)hello->job.data[i] < 0x20)
			return err_set(e, ERR_PROTOCOL,
				       "HELLO: the job's id is not printable");
	if (hello->role < WIRE_AGENT || hello->role > WIRE_TOOL)
		return err_set(e, ERR_PROTOCOL, "HELLO: role %u does not exist",
			       hello->role);
	return 0;
}

static int admit_agent(struct member *m, const struct wire_hello *hello,
		       struct err *e)
{
	if (m->server->guests)
		return err_set(e, ERR_REFUSED,
			       "the server at %s serves a job without agents",
			       m->server->endpoint);
	if (is_another(m, hello->job))
		return err_set(e, ERR_REFUSED,
			       "the server at %s serves another job only",
			       m->server->endpoint);
	m->job_id = strndup(hello->job.data, hello->job.len);
	m->host = strndup(hello->host.data, hello->host.len);
	if (!m->job_id)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	m->lease_ms = m->server->lease_ms;
	conn_due(&m->conn, m->conn.heard + m->lease_ms);
	return 0;
}

int request_admit(struct member *m, const struct wire_hello *hello,
		  struct err *e)
{
	int rc = check_hello(hello, e);

	/* An agent may come again: the next server will be here. A worker is
	 * told how its round ended, as long as we are here. */
	if (rc == 0 && (m->server->draining ||
			(m->server->leaving && hello->role == WIRE_AGENT)))
		rc = err_set(e, ERR_ABORTED,
			     "the rendezvous server at %s stops",
			     m->server->endpoint);
	if (rc == 0 && m->full)
		rc = limits_full(m->server, e);
	if (rc == 0 && m->server->place)
		rc = place_check(m->server->place, e);
	if (rc < 0) {
		m->server->counts.refused_hello++;
		return rc;
	}
	if (hello->role == WIRE_WORKER)
		rc = hosted_admit_worker(m, hello, e);
	else if (hello->role == WIRE_TOOL)
		rc = dump_hello(m, hello, e);
	else
		rc = admit_agent(m, hello, e);
	if (rc < 0)
		return rc;
	m->role = hello->role;
	conn_accept(&m->conn);
	return 0;
}

static int on_join(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct hosted *h = m->hosted;
	struct wire_join join;
	int rc = wire_get_join(f, &join, e);

	if (rc < 0)
		return rc;
	if (!h) {
		h = hosted_find(m->server, SLICE_STR(m->job_id));
		rc = h ? limits_check_client(h, e) :
		     limits_check_job(m->server, m->job_id, e);
		if (rc < 0)
			return rc;
		h = hosted_for_join(m->server, SLICE_STR(m->job_id));
	}
	if (!h)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	rc = job_join(h->job, &join, m, m->server->endpoint, &m->node, e);
	if (rc < 0) {
		hosted_free_if_empty(h);
		return rc;
	}
	m->hosted = h;
	rc = voucher_node(h, m, &join.addrs, e);
	if (rc < 0)
		return rc;
	history_event(h, m->node, f);
	m->waited = (struct waited){.since = uv_now(m->server->loop)};
	m->lease_ms = join.lease_ms ? join.lease_ms : m->server->lease_ms;
	hosted_bear_with(m);
	conn_due(&m->conn, m->conn.heard + m->lease_ms);
	/* STATE or START follows, soon: a thousand who come at once are told in
	 * one packet each */
	wire_put_empty(conn_out_later(&m->conn), f->type, WIRE_REPLY, f->id);
	hosted_tell_state(h);
	hosted_act(h);
	return 0;
}

static int joined_only(struct member *m, const struct wire_frame *f,
		       struct err *e)
{
	if (m->node)
		return 0;
	return err_set(e, ERR_PROTOCOL, "%s from an agent that has not joined",
		       wire_type_name(f->type));
}

static int on_exited(struct member *m, const struct wire_frame *f,
		     struct err *e)
{
	struct wire_exited exited;
	int rc = wire_get_exited(f, &exited, e);

	if (rc == 0)
		rc = joined_only(m, f, e);
	if (rc == 0)
		rc = job_exited(m->hosted->job, m->node, &exited, e);
	if (rc < 0)
		return rc;
	history_event(m->hosted, m->node, f);
	hosted_act(m->hosted);
	return 0;
}

static int on_failed(struct member *m, const struct wire_frame *f,
		     struct err *e)
{
	struct wire_failed failed;
	int rc = wire_get_failed(f, &failed, e);

	if (rc == 0)
		rc = joined_only(m, f, e);
	if (rc < 0)
		return rc;
	history_event(m->hosted, m->node, f);
	job_failed(m->hosted->job, m->node, &failed);
	hosted_act(m->hosted);
	return 0;
}

/* One that leaves before it has joined leaves nothing. */
static int on_leave(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct wire_leave leave;
	int rc = wire_get_leave(f, &leave, e);

	if (rc < 0 || !m->node)
		return rc;
	history_event(m->hosted, m->node, f);
	job_leave(m->hosted->job, m->node, &leave);
	hosted_act(m->hosted);
	return 0;
}

static int on_stop(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct wire_stop stop;
	int rc = wire_get_stop(f, &stop, e);

	if (rc < 0 || !m->node)
		return rc;
	history_event(m->hosted, m->node, f);
	job_told(m->hosted->job, m->node, &stop);
	hosted_act(m->hosted);
	return 0;
}

/* That this server is there needs no keeping: while etcd takes its time, as it
 * elects, nobody is to believe it dead. */
static int on_ping(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct buf b = BUF_INIT(WIRE_HEADER_SIZE);
	int said;

	if (!m->server->place || !place_is_sure(m->server->place))
		return reply_empty(m, f);
	wire_put_empty(&b, f->type, WIRE_REPLY, f->id);
	said = !b.failed && conn_say_past(&m->conn, SLICE(b.data, b.len));
	buf_release(&b);
	return said ? 0 : reply_empty(m, f);
}

static int on_session(struct member *m, const struct wire_frame *f,
		      struct err *e)
{
	int rc = session_request(&m->session, f, e);

	if (m->hosted)
		store_answer_all(m->hosted->store);
	if (m->session.nparked)
		waits_begin(m->server);
	return rc;
}

/* How a rank of an agent ends is the agent's to say. */
static int on_left(struct member *m, const struct wire_frame *f, struct err *e)
{
	if (m->hosted && m->hosted->guests)
		guests_left(m->hosted, m, "said that it leaves");
	return 0;
}

/* Who may send what, as what. Role 0 is a client before its HELLO. */
struct rule {
	int role;
	enum wire_kind kind;
	handler *run;
};

static const struct rule rules[] = {
	[WIRE_HELLO] = {0, WIRE_REQUEST, door_hello},
	[WIRE_JOIN] = {WIRE_AGENT, WIRE_REQUEST, on_join},
	[WIRE_EXITED] = {WIRE_AGENT, WIRE_NOTICE, on_exited},
	[WIRE_FAILED] = {WIRE_AGENT, WIRE_NOTICE, on_failed},
	[WIRE_LEAVE] = {WIRE_AGENT, WIRE_NOTICE, on_leave},
	[WIRE_STOP] = {WIRE_AGENT, WIRE_NOTICE, on_stop},
	[WIRE_RESUME] = {WIRE_AGENT, WIRE_REQUEST, resume_take},
	[WIRE_VOUCHED] = {WIRE_AGENT, WIRE_NOTICE, voucher_answer},
	[WIRE_PING] = {WIRE_AGENT, WIRE_REQUEST, on_ping},
	[WIRE_LEFT] = {WIRE_WORKER, WIRE_NOTICE, on_left},
	[WIRE_DUMP] = {WIRE_TOOL, WIRE_REQUEST, dump_start},
	[WIRE_STATUS] = {WIRE_TOOL, WIRE_REQUEST, status_take},
	[WIRE_PAGE] = {WIRE_AGENT, WIRE_NOTICE, dump_page},
};

static struct rule rule_for(enum wire_type type)
{
	if (session_takes(type))
		return (struct rule){WIRE_WORKER, WIRE_REQUEST, on_session};
	if ((size_t)type < sizeof rules / sizeof rules[0])
		return rules[type];
	return (struct rule){0, 0, NULL};
}

static int check_rule(const struct member *m, const struct rule *r,
		      const struct wire_frame *f, struct err *e)
{
	static const char *const who[] = {"a client before its proof",
					  "an agent", "a worker", "a tool"};

	if (r->run && r->role == m->role && r->kind == f->kind)
		return 0;
	return err_set(e, ERR_PROTOCOL, "%s, kind %d, from %s: not allowed",
		       wire_type_name(f->type), (int)f->kind, who[m->role]);
}

void request_take(struct member *m, const struct wire_frame *f)
{
	struct rule r = rule_for(f->type);
	struct err e = ERR_INIT;
	struct wire_error reply;
	char why[ERR_TEXT_MAX + 32];
	int rc = check_rule(m, &r, f, &e);

	m->server->counts.requests[f->type]++;
	if (rc == 0)
		rc = r.run(m, f, &e);
	if (rc == ERR_PROTOCOL) {
		snprintf(why, sizeof why, "it broke the protocol: %s", e.text);
		conn_refuse(&m->conn, rc, e.text);
		hosted_lose(m, why);
	} else if (rc < 0) {
		reply = (struct wire_error){rc, SLICE_STR(e.text)};
		wire_put_error(conn_out(&m->conn), f->type, WIRE_ERROR_REPLY,
			       f->id, &reply);
	}
}

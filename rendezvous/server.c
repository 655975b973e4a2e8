/* server.c: accepting, who a client is, its messages, signals and the end.
 * What a message does to a job is round.c's, to a store session.c's. */
#include "rendezvous/server.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signal_name.h"
#include "base/sock.h"
#include "rendezvous/dump.h"
#include "rendezvous/guests.h"
#include "rendezvous/hosted.h"

static void exit_if_drained(struct server *s);
static void end_if_guests_gone(struct server *s);

static struct member *member_of(struct conn *c)
{
	return (struct member *)c;
}

/* ---- messages; < 0 is an error reply, ERR_PROTOCOL the end ---- */

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

static int on_hello(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct wire_hello hello;
	size_t i;
	int rc = wire_get_hello(f, &hello, e);

	if (rc < 0)
		return rc;
	for (i = 0; i < hello.job.len; i++)
		if ((unsigned char)hello.job.data[i] < 0x20)
			return err_set(e, ERR_PROTOCOL,
				       "HELLO: the job's id is not printable");
	/* An agent may come again: the next server will be here. A worker is
	 * told how its round ended, as long as we are here. */
	if (m->server->draining ||
	    (m->server->leaving && hello.role == WIRE_AGENT))
		return err_set(e, ERR_ABORTED,
			       "the rendezvous server at %s stops",
			       m->server->endpoint);
	if (hello.role == WIRE_WORKER) {
		rc = hosted_admit_worker(m, &hello, e);
		if (rc < 0)
			return rc;
	} else if (hello.role == WIRE_TOOL) {
		rc = dump_hello(m, &hello, e);
		if (rc < 0)
			return rc;
	} else if (hello.role == WIRE_AGENT && m->server->guests) {
		return err_set(e, ERR_REFUSED,
			       "the server at %s serves a job without agents",
			       m->server->endpoint);
	} else if (hello.role == WIRE_AGENT && is_another(m, hello.job)) {
		return err_set(e, ERR_REFUSED,
			       "the server at %s serves another job only",
			       m->server->endpoint);
	} else if (hello.role == WIRE_AGENT) {
		m->job_id = strndup(hello.job.data, hello.job.len);
		if (!m->job_id)
			return err_set(e, -ENOMEM, "the rendezvous server is "
						   "out of memory");
		m->lease_ms = m->server->lease_ms;
		conn_due(&m->conn, m->conn.heard + m->lease_ms);
	} else {
		return err_set(e, ERR_PROTOCOL, "HELLO: role %u does not exist",
			       hello.role);
	}
	m->role = hello.role;
	conn_accept(&m->conn);
	return reply_empty(m, f);
}

static int on_join(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct hosted *h = m->hosted;
	struct wire_join join;
	int rc = wire_get_join(f, &join, e);

	if (rc < 0)
		return rc;
	if (!h)
		h = hosted_for_join(m->server, SLICE_STR(m->job_id));
	if (!h)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	rc = job_join(h->job, &join, m, m->server->endpoint, &m->node, e);
	if (rc < 0) {
		hosted_free_if_empty(h);
		return rc;
	}
	m->hosted = h;
	m->lease_ms = join.lease_ms ? join.lease_ms : m->server->lease_ms;
	conn_due(&m->conn, m->conn.heard + m->lease_ms);
	reply_empty(m, f);
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
	if (rc == 0)
		hosted_act(m->hosted);
	return rc;
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
	job_leave(m->hosted->job, m->node, &leave);
	hosted_act(m->hosted);
	return 0;
}

static int on_stop(struct member *m, const struct wire_frame *f, struct err *e)
{
	struct wire_stop stop;
	int rc = wire_get_stop(f, &stop, e);

	if (rc == 0 && (!stop.level || stop.level > WIRE_CUT))
		rc = err_set(e, ERR_PROTOCOL, "STOP: no level %u", stop.level);
	if (rc < 0 || !m->node)
		return rc;
	job_told(m->hosted->job, m->node, &stop);
	hosted_act(m->hosted);
	return 0;
}

static int on_ping(struct member *m, const struct wire_frame *f, struct err *e)
{
	return reply_empty(m, f);
}

static int on_session(struct member *m, const struct wire_frame *f,
		      struct err *e)
{
	int rc = session_request(&m->session, f, e);

	if (m->hosted)
		store_answer_all(m->hosted->store);
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
	[WIRE_HELLO] = {0, WIRE_REQUEST, on_hello},
	[WIRE_JOIN] = {WIRE_AGENT, WIRE_REQUEST, on_join},
	[WIRE_EXITED] = {WIRE_AGENT, WIRE_NOTICE, on_exited},
	[WIRE_FAILED] = {WIRE_AGENT, WIRE_NOTICE, on_failed},
	[WIRE_LEAVE] = {WIRE_AGENT, WIRE_NOTICE, on_leave},
	[WIRE_STOP] = {WIRE_AGENT, WIRE_NOTICE, on_stop},
	[WIRE_PING] = {WIRE_AGENT, WIRE_REQUEST, on_ping},
	[WIRE_LEFT] = {WIRE_WORKER, WIRE_NOTICE, on_left},
	[WIRE_DUMP] = {WIRE_TOOL, WIRE_REQUEST, dump_start},
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
	static const char *const who[] = {"a client before its HELLO",
					  "an agent", "a worker", "a tool"};

	if (r->run && r->role == m->role && r->kind == f->kind)
		return 0;
	return err_set(e, ERR_PROTOCOL, "%s, kind %d, from %s: not allowed",
		       wire_type_name(f->type), (int)f->kind, who[m->role]);
}

static void on_frame(struct conn *c, const struct wire_frame *f)
{
	struct member *m = member_of(c);
	struct rule r = rule_for(f->type);
	struct err e = ERR_INIT;
	struct wire_error reply;
	char why[ERR_TEXT_MAX + 32];
	int rc = check_rule(m, &r, f, &e);

	if (rc == 0)
		rc = r.run(m, f, &e);
	if (rc == ERR_PROTOCOL) {
		snprintf(why, sizeof why, "it broke the protocol: %s", e.text);
		conn_refuse(c, rc, e.text);
		hosted_lose(m, why);
	} else if (rc < 0) {
		reply = (struct wire_error){rc, SLICE_STR(e.text)};
		wire_put_error(conn_out(c), f->type, WIRE_ERROR_REPLY, f->id,
			       &reply);
	}
}

/* ---- time, and the end of a client ---- */

static void lose_silent(struct member *m, uint64_t silent_ms)
{
	char why[64], told[128];

	snprintf(why, sizeof why, "not heard from for %.1f s",
		 (double)silent_ms / 1e3);
	/* it may read this later: it was it that was silent, not we */
	snprintf(told, sizeof told, "this node was %s; was it stopped, or its "
		 "network down?", why);
	conn_refuse(&m->conn, ERR_TIMEOUT, told);
	m->conn.silent = 1;
	hosted_lose(m, why);
}

/* An agent's lease. If this process itself was held up (stopped, swapped out)
 * the agent's signs of life may lie unread in the socket: so when a lease ends
 * the loop gets one more turn to read them. */
static void agent_on_due(struct member *m)
{
	uint64_t now = uv_now(m->server->loop);
	uint64_t heard = m->conn.heard, ends;

	/* stopped with Ctrl-Z, say: it may go on when it likes */
	if (m->node && job_node_is_alone(m->hosted->job, m->node))
		heard = now;
	ends = heard + m->lease_ms;
	if (m->close_at && now >= m->close_at) {
		conn_finish(&m->conn);
		hosted_lose(m, "its connection closed");
	} else if (now < ends) {
		m->suspect = 0;
		if (m->close_at && m->close_at < ends)
			ends = m->close_at;
		conn_due(&m->conn, ends);
	} else if (!m->suspect) {
		m->suspect = 1;
		conn_due(&m->conn, now + SUSPECT_MS);
	} else {
		lose_silent(m, m->lease_ms);
	}
}

static void on_due(struct conn *c)
{
	struct member *m = member_of(c);

	if (m->role == WIRE_AGENT) {
		agent_on_due(m);
	} else if (m->role == WIRE_TOOL) {
		dump_on_due(m);
	} else if (m->hosted) {
		session_on_due(&m->session);
		store_answer_all(m->hosted->store);
	}
}

static void on_gone(struct conn *c, const char *why)
{
	hosted_lose(member_of(c), why);
}

static void on_closed(struct conn *c)
{
	struct member *m = member_of(c);
	struct server *s = m->server;

	dump_forget(m, "its connection closed");
	*m->pprev = m->next;
	if (m->next)
		m->next->pprev = m->pprev;
	free(m->job_id);
	free(m->host);
	free(m);
	end_if_guests_gone(s);
	exit_if_drained(s);
}

static const struct conn_events conn_events = {
	.on_frame = on_frame, .on_due = on_due, .on_gone = on_gone,
	.on_closed = on_closed,
};

static void on_connection(uv_stream_t *listener, int status)
{
	struct server *s = listener->data;
	struct member *m = status < 0 ? NULL : calloc(1, sizeof *m);

	if (!m) {
		log_warn("cannot take a connection: %s",
			 status < 0 ? uv_strerror(status) : "out of memory");
		return;
	}
	m->server = s;
	m->next = s->members;
	if (m->next)
		m->next->pprev = &m->next;
	m->pprev = &s->members;
	s->members = m;
	conn_open(&m->conn, &s->pool, &conn_events,
		  WIRE_HEADER_SIZE + WIRE_BODY_MAX, listener);
}

/* ---- the end ---- */

static void close_handle(uv_handle_t *h)
{
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

/* With no handle left the loop ends. */
static void exit_if_drained(struct server *s)
{
	if (!s->draining || s->members || s->closing)
		return;
	s->closing = 1;
	if (s->guests)
		guests_close(s->guests);
	close_handle((uv_handle_t *)&s->drain_timer);
	if (s->has_parent) {
		close_handle((uv_handle_t *)&s->parent);
	} else {
		close_handle((uv_handle_t *)&s->term);
		close_handle((uv_handle_t *)&s->interrupt);
	}
}

static void stop_jobs(struct server *s)
{
	struct member *m, *next;
	struct hosted *h;

	s->stopped_jobs = 1;
	for (m = s->members; m; m = m->next) {
		if (m->role != WIRE_AGENT || !(h = m->hosted))
			continue;
		job_stop(h->job, s->why);
		hosted_act(h);
	}
	/* Who has no job has nothing to be told */
	for (m = s->members; m; m = next) {
		next = m->next;
		if (!m->hosted)
			conn_finish(&m->conn);
	}
	conn_flush_all(&s->pool);
}

static void on_drain_timer(uv_timer_t *t)
{
	struct server *s = t->data;
	struct member *m;

	if (!s->stopped_jobs) {
		stop_jobs(s);
		uv_timer_start(t, on_drain_timer, DRAIN_MS, 0);
		return;
	}
	for (m = s->members; m; m = m->next) {
		hosted_lose(m, "its connection closed");
		conn_drop(&m->conn);
	}
}

/* Nobody new. A parent that is gone, or was told to go as we were, leaves by
 * its own connection too, and that says more than our end would: it is given
 * time to arrive. */
static void drain(struct server *s, const char *why)
{
	if (s->draining)
		return;
	s->draining = 1;
	snprintf(s->why, sizeof s->why, "the rendezvous server at %s %s",
		 s->endpoint, why);
	close_handle((uv_handle_t *)&s->listener);
	uv_timer_start(&s->drain_timer, on_drain_timer,
		       s->has_parent ? LAST_WORDS_MS : 0, 0);
	exit_if_drained(s);
}

/* Its ranks outlive rank 0 by what they still have to do. */
static void end_if_guests_gone(struct server *s)
{
	if (s->guests && !s->members &&
	    (s->parent_gone || guests_all_gone(s->guests)))
		drain(s, "stops: its ranks have gone");
}

static void on_signal(uv_signal_t *sig, int number)
{
	struct server *s = sig->data;
	char why[64], name[SIGNAL_NAME_MAX];

	if (s->guests)
		return;
	snprintf(why, sizeof why, "was told to stop by %s",
		 signal_name(number, name));
	log_info("%s", why);
	drain(s, why);
}

static void on_parent_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct server *s = h->data;

	*b = uv_buf_init(s->pool.scratch, sizeof s->pool.scratch);
}

static void on_parent_read(uv_stream_t *p, ssize_t n, const uv_buf_t *b)
{
	struct server *s = p->data;

	if (n < 0) {
		uv_read_stop(p);
		s->parent_gone = 1;
		end_if_guests_gone(s);
		if (!s->guests)
			drain(s, "stops: the ddprun that started it is "
				 "gone");
	}
}

/* ---- begin ---- */

static int watch_parent(struct server *s, int fd, struct err *e)
{
	int rc;

	/* A terminal's ^C reaches this process too, and Slurm signals all of a
	 * step: our parent decides what that means, and we are needed until it
	 * has. */
	static const int ignored[] = {
		SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
		SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ, SIGIO, SIGPWR};

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		signal(ignored[i], SIG_IGN);
	uv_pipe_init(s->loop, &s->parent, 0);
	s->parent.data = s;
	s->has_parent = 1;
	rc = uv_pipe_open(&s->parent, fd);
	if (rc == 0)
		rc = uv_read_start((uv_stream_t *)&s->parent, on_parent_alloc,
				   on_parent_read);
	if (rc < 0)
		return err_set(e, rc, "--parent-fd %d is not a pipe: %s", fd,
			       uv_strerror(rc));
	return 0;
}

static void watch_signal(struct server *s, uv_signal_t *sig, int number)
{
	uv_signal_init(s->loop, sig);
	sig->data = s;
	uv_signal_start(sig, on_signal, number);
}

static int start_listening(struct server *s, int fd, struct err *e)
{
	struct sock_addr a = {.len = sizeof a.ss};
	int rc;

	if (getsockname(fd, (struct sockaddr *)&a.ss, &a.len) < 0)
		return err_set(e, -errno, "--listen-fd %d is not a socket: %s",
			       fd, strerror(errno));
	sock_addr_text(&a, s->endpoint);
	s->bound = a;
	uv_tcp_init(s->loop, &s->listener);
	s->listener.data = s;
	rc = uv_tcp_open(&s->listener, fd);
	if (rc == 0)
		rc = uv_listen((uv_stream_t *)&s->listener, SOMAXCONN,
			       on_connection);
	if (rc < 0)
		return err_set(e, rc, "cannot listen on %s: %s", s->endpoint,
			       uv_strerror(rc));
	return 0;
}

static void close_walked(uv_handle_t *h, void *arg)
{
	close_handle(h);
}

int server_new(struct server **out, uv_loop_t *loop,
	       const struct server_options *o, struct err *e)
{
	struct server *s = calloc(1, sizeof *s);
	int rc;

	if (!s)
		return err_set(e, -ENOMEM, "out of memory");
	s->loop = loop;
	s->lease_ms = o->lease_ms;
	s->only_job = o->job;
	s->pool.loop = loop;
	s->pool.hello_ms = o->hello_ms;
	signal(SIGPIPE, SIG_IGN);
	rc = start_listening(s, o->listen_fd, e);
	if (rc == 0 && o->parent_fd >= 0)
		rc = watch_parent(s, o->parent_fd, e);
	if (rc < 0) {
		uv_walk(loop, close_walked, NULL);
		uv_run(loop, UV_RUN_DEFAULT);
		free(s);
		return rc;
	}
	if (!s->has_parent) {
		watch_signal(s, &s->term, SIGTERM);
		watch_signal(s, &s->interrupt, SIGINT);
	}
	uv_timer_init(loop, &s->drain_timer);
	s->drain_timer.data = s;
	*out = s;
	return o->guests ? guests_open(s, o->job, o->guests, e) : 0;
}

void server_run(struct server *s)
{
	uv_run(s->loop, UV_RUN_DEFAULT);
}

void server_free(struct server *s)
{
	table_release(&s->jobs);
	ended_release(&s->ended);
	free(s);
}

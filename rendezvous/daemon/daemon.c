/* daemon.c: accepts clients, checks leases, handles signals and the end.
 * request.c handles the messages. */
#include "rendezvous/daemon/daemon.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/sock.h"
#include "rendezvous/admission/admission.h"
#include "rendezvous/daemon/daemon_internal.h"
#include "rendezvous/election/leadership.h"
#include "rendezvous/query/query.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/limits.h"
#include "rendezvous/server/server.h"
#include "rendezvous/vouching/voucher.h"
#include "rendezvous/web/web.h"

enum {
	DRAIN_MS = 5000,     /* from stopping the jobs to closing all peers */
	LAST_WORDS_MS = 200, /* for messages under way when it began */
};

static void daemon_exit_if_drained(struct server *s);
static void daemon_end_if_guests_gone(struct server *s);

/* ---- a client ---- */

static void daemon_on_peer_frame(struct conn *c, const struct wire_frame *f)
{
	request_take(peer_of(c), f);
}

static void daemon_lose_silent_agent(struct peer *p, uint64_t silent_ms)
{
	char why[64], text[128];

	p->server->counts.leases_lost++;
	snprintf(why, sizeof(why), "not heard from for %.1f s",
		 (double)silent_ms / 1e3);
	/* the node may read this much later: name the node, not us */
	snprintf(text, sizeof(text),
		 "this node was %s; was it stopped, or was its network down?",
		 why);
	conn_refuse(&p->conn, ERR_TIMEOUT, text);
	p->conn.silent = 1;
	peer_lose(p, why);
}

/* Checks an agent's lease. If this process itself was held up (stopped, swapped
 * out), the agent's pings may be unread in the socket, so a lease that ends
 * gets one more turn of the loop. */
static void daemon_check_lease(struct peer *p)
{
	uint64_t now = uv_now(p->server->loop);
	uint64_t heard = p->conn.heard, ends;

	/* we do not read from it now, or it is alone in its job and may stay
	 * stopped (Ctrl-Z) as long as it likes */
	if (conn_is_stopped(&p->conn) ||
	    (p->node && job_node_is_alone(p->hosted->job, p->node)))
		heard = now;
	ends = heard + p->lease_ms;
	if (p->close_at && now >= p->close_at) {
		conn_finish(&p->conn);
		peer_lose(p, "its connection closed");
	} else if (now < ends) {
		p->is_suspect = 0;
		if (p->close_at && p->close_at < ends)
			ends = p->close_at;
		conn_due(&p->conn, ends);
	} else if (!p->is_suspect) {
		p->is_suspect = 1;
		conn_due(&p->conn, now + SERVER_SUSPECT_MS);
	} else {
		daemon_lose_silent_agent(p, p->lease_ms);
	}
}

static void daemon_on_peer_due(struct conn *c)
{
	struct peer *p = peer_of(c);

	if (!p->role) {
		admission_on_due(p);
	} else if (p->role == WIRE_AGENT) {
		daemon_check_lease(p);
	} else if (p->role == WIRE_TOOL) {
		dump_on_due(p);
	} else if (p->hosted) {
		session_on_due(&p->session);
		store_answer_all(p->hosted->store);
	}
}

static void daemon_on_peer_strange(struct conn *c, const char *why)
{
	admission_log_strange(peer_of(c), why);
}

static void daemon_on_peer_gone(struct conn *c, const char *why)
{
	struct peer *p = peer_of(c);

	/* munge or etcd may reply before the handle is closed */
	admission_on_gone(p);
	standby_forget(p);
	if (p->node && p->hosted)
		stall_report_release_exits(p->hosted);
	if (!c->reset || !resume_await(p, why))
		peer_lose(p, why);
}

static void daemon_on_peer_closed(struct conn *c)
{
	struct peer *p = peer_of(c);
	struct server *s = p->server;

	dump_forget(p, "its connection closed");
	admission_leave(p);
	standby_forget(p);
	server_remove_peer(p);
	buf_release(&p->gpus);
	free(p->job_id);
	free(p->host);
	free(p);
	daemon_end_if_guests_gone(s);
	daemon_exit_if_drained(s);
}

static const struct conn_events conn_events = {
	.on_frame = daemon_on_peer_frame,
	.on_due = daemon_on_peer_due,
	.on_strange = daemon_on_peer_strange,
	.on_gone = daemon_on_peer_gone,
	.on_closed = daemon_on_peer_closed,
};

static enum listener_answer daemon_accept(struct server *s, int fd, int scarce)
{
	struct peer *p;
	int full;

	if (!admission_has_room(s))
		return LISTENER_WAITS;
	p = calloc(1, sizeof(*p));
	if (!p)
		return LISTENER_NO_MEMORY;
	server_add_peer(s, p);
	if (conn_open(&p->conn, &s->pool, &conn_events,
		      WIRE_HEADER_SIZE + WIRE_BODY_MAX, fd) < 0)
		return LISTENER_TOOK;
	s->counts.accepted++;
	full = limits_accepted(s, p, scarce);
	if (full < 0) {
		conn_drop(&p->conn);
		return LISTENER_TOOK;
	}
	admission_enter(p);
	p->is_refused = full;
	if (full) /* make room for others soon */
		conn_due(&p->conn, uv_now(s->loop) + ADMISSION_GRACE_MS);
	/* greet first, so that its HELLO comes with its preface */
	admission_greet(p);
	conn_flush_all(&s->pool);
	return LISTENER_TOOK;
}

/* ---- the end ---- */

static void daemon_close_handle(uv_handle_t *h)
{
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

/* Whether another ddprdzv serves the jobs or will continue them. */
static int daemon_is_served_elsewhere(const struct server *s)
{
	struct hosted_job *h = NULL;

	if (!s->leadership || leadership_check(s->leadership, NULL) < 0)
		return s->leadership != NULL;
	while ((h = server_next_job(s, h)))
		if (job_state(h->job) != JOB_OVER)
			return 1;
	return 0;
}

static void daemon_on_resigned(void *server)
{
	daemon_exit_if_drained(server);
}

/* The loop ends when no handle is open. */
static void daemon_exit_if_drained(struct server *s)
{
	if (!s->draining || server_next_peer(s, NULL) || s->closing)
		return;
	if (s->leadership) {
		leadership_leave(s->leadership, !daemon_is_served_elsewhere(s),
				 daemon_on_resigned);
		return;
	}
	s->closing = 1;
	if (s->agentless)
		agentless_job_close(s->agentless);
	server_drop_jobs(s); /* whose nodes have not come back */
	daemon_close_handle((uv_handle_t *)&s->drain_timer);
	wait_report_close(s);
	limits_close(s);
	metrics_close(s);
	web_close(s);
	service_notify_close(s);
	standby_close(s);
	if (s->has_parent) {
		daemon_close_handle((uv_handle_t *)&s->parent.pipe);
	} else {
		daemon_close_handle((uv_handle_t *)&s->term);
		daemon_close_handle((uv_handle_t *)&s->interrupt);
	}
}

static void daemon_end_jobs(struct server *s)
{
	struct hosted_job *h = NULL;

	while ((h = server_next_job(s, h))) {
		if (h == s->agentless)
			continue;
		hosted_job_end_look(h);
		job_event_stopped(h, s->why);
		hosted_job_act(h);
	}
}

static void daemon_stop_jobs(struct server *s)
{
	struct peer *p, *next;

	s->has_stopped_jobs = 1;
	daemon_end_jobs(s);
	/* peers without a job get no message */
	for (p = server_next_peer(s, NULL); p; p = next) {
		next = server_next_peer(s, p);
		if (!p->hosted)
			conn_finish(&p->conn);
	}
	conn_flush_all(&s->pool);
}

static void daemon_drop_members(struct server *s)
{
	struct peer *p = NULL;

	while ((p = server_next_peer(s, p))) {
		admission_leave(p);
		standby_forget(p);
		peer_lose(p, "its connection closed");
		conn_drop(&p->conn);
	}
	daemon_exit_if_drained(s);
}

static void daemon_on_moved(void *server)
{
	daemon_drop_members(server);
}

static void daemon_on_drain_timer(uv_timer_t *t)
{
	struct server *s = t->data;

	if (!s->has_stopped_jobs && daemon_is_served_elsewhere(s)) {
		s->has_stopped_jobs = 1;
		leadership_leave(s->leadership, 0, daemon_on_moved);
	} else if (!s->has_stopped_jobs) {
		daemon_stop_jobs(s);
		uv_timer_start(t, daemon_on_drain_timer, DRAIN_MS, 0);
	} else {
		daemon_drop_members(s);
	}
}

static void daemon_set_why(struct server *s, const char *why)
{
	snprintf(s->why, sizeof(s->why), "the rendezvous server at %s %s",
		 s->endpoint, why);
}

/* Takes no new clients. If the parent is gone or is stopping as well, its
 * agent's last messages explain the end better than ours, so gives them time to
 * arrive. */
static void daemon_drain(struct server *s, const char *why)
{
	if (s->draining)
		return;
	s->draining = 1;
	service_notify_stops(s);
	daemon_set_why(s, why);
	listening_close(s);
	uv_timer_start(&s->drain_timer, daemon_on_drain_timer,
		       s->has_parent ? LAST_WORDS_MS : 0, 0);
	daemon_exit_if_drained(s);
}

/* A job without agents: its other ranks may outlive rank 0, our parent, so
 * waits for the last one. */
static void daemon_end_if_guests_gone(struct server *s)
{
	if (s->agentless && !server_next_peer(s, NULL) &&
	    (s->parent_gone || agentless_job_is_over(s->agentless)))
		daemon_drain(s, "is stopping: its ranks have left");
}

/* Ends this server without ending the jobs: the next one continues them from
 * the journal. */
static void daemon_stop_keeping_jobs(struct server *s)
{
	journal_writer_commit(&s->writer);
	journal_writer_close(&s->writer);
	s->draining = s->has_stopped_jobs = 1;
	listening_close(s);
	daemon_drop_members(s);
}

static void daemon_on_signal(uv_signal_t *sig, int number)
{
	struct server *s = sig->data;
	char why[64], name[SIGNAL_NAME_MAX];

	if (s->agentless)
		return;
	snprintf(why, sizeof(why), "received %s", signal_name(number, name));
	log_info("%s", why);
	if (s->writer.file)
		daemon_stop_keeping_jobs(s);
	else
		daemon_drain(s, why);
}

static const char parent_is_gone[] =
	"is stopping: the ddprun that started it is gone";

static void daemon_on_parent_gone(struct server *s)
{
	s->parent_gone = 1;
	daemon_end_if_guests_gone(s);
	if (!s->agentless)
		daemon_drain(s, parent_is_gone);
}

static void daemon_on_last_words(uv_timer_t *t)
{
	struct server *s = t->data;

	daemon_end_jobs(s);
	conn_flush_all(&s->pool);
}

/* As daemon_on_parent_gone, but nodes that come late still learn how the job
 * ended. */
static void daemon_on_node_gone(struct server *s)
{
	if (s->draining || s->jobs_end)
		return;
	s->jobs_end = 1;
	daemon_set_why(s, parent_is_gone);
	uv_timer_start(&s->drain_timer, daemon_on_last_words, LAST_WORDS_MS, 0);
}

static const struct parent_pipe_events parent_events = {
	.on_gone = daemon_on_parent_gone,
	.on_node_gone = daemon_on_node_gone,
};

/* ---- begin ---- */

static int daemon_watch_signal(struct server *s, uv_signal_t *sig, int number,
			       struct err *e)
{
	int rc = uv_signal_init(s->loop, sig);

	sig->data = s;
	if (rc == 0)
		rc = uv_signal_start(sig, daemon_on_signal, number);
	return loop_check(rc, e, "cannot watch for signals");
}

static void daemon_close_walked(uv_handle_t *h, void *arg)
{
	daemon_close_handle(h);
}

/* Closes a server that failed to start. */
static void daemon_abandon(struct server *s)
{
	server_drop_jobs(s);
	leadership_close(s->leadership);
	listening_close(s);
	web_close(s);
	uv_walk(s->loop, daemon_close_walked, NULL);
	uv_run(s->loop, UV_RUN_DEFAULT);
	daemon_free(s);
}

static int daemon_open_journal(struct server *s, const struct daemon_options *o,
			       struct err *e)
{
	int rc = 0;

	s->pool.commit = journal_writer_commit;
	s->pool.commit_arg = &s->writer;
	if (o->leadership)
		return elected_server_open(s, o->leadership, e);
	if (o->journal || o->journal_fd > 0)
		rc = recovery_start(s, o->journal, o->journal_fd, e);
	/* serve even without memory for a journal (see ulimit -f) */
	if (rc < 0 && !o->journal && !s->writer.file) {
		log_warn("%s; if this server dies, its jobs end", e->text);
		rc = 0;
	}
	return rc;
}

static void daemon_on_job_closed(struct hosted_job *h)
{
	stall_report_release(h);
	web_on_job_closed(h);
	resume_release(h);
	voucher_release(h);
}

static void daemon_on_round(struct hosted_job *h)
{
	torch_home_open(h);
	web_on_round(h);
}

const struct server_hooks daemon_hooks = {
	.on_peer_gone = dump_forget,
	.on_agent_gone = voucher_forget,
	.on_node_lost = resume_lost,
	.on_round = daemon_on_round,
	.on_round_end = web_on_round_end,
	.on_wait = wait_report_begin,
	.on_torch_gave_up = wait_report_given_up,
	.on_job_empty = voucher_release,
	.on_job_closed = daemon_on_job_closed,
	.explain = wait_report_for_request,
	.fate_due = wait_report_fate_due,
};

int daemon_new(struct server **out, uv_loop_t *loop,
	       const struct daemon_options *o, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return err_no_memory(e, "the server");
	s->loop = loop;
	s->lease_ms = o->lease_ms;
	s->only_job = o->job;
	s->max_connections = o->max_connections;
	s->max_jobs = o->max_jobs;
	s->max_keys = o->max_keys;
	s->max_bytes = o->max_bytes;
	s->accounts = o->accounts;
	s->idle_ms = o->idle_ms;
	s->token_dir = o->token_dir;
	s->pool.loop = loop;
	s->pool.hello_ms = o->hello_ms;
	s->pool.silent_ms = o->silent_ms;
	s->auth = *o->auth;
	s->applicants.on_room = listening_again;
	s->accept = daemon_accept;
	s->torch_job = o->torch_job;
	s->hooks = &daemon_hooks;
	signal(SIGPIPE, SIG_IGN);
	rc = listening_open(s, o->listen_fds, o->listeners, e);
	if (rc == 0 && o->parent_fd >= 0)
		rc = parent_pipe_watch(s, o->parent_fd, &parent_events, e);
	if (rc == 0 && !s->has_parent)
		rc = daemon_watch_signal(s, &s->term, SIGTERM, e);
	if (rc == 0 && !s->has_parent)
		rc = daemon_watch_signal(s, &s->interrupt, SIGINT, e);
	if (rc == 0 && o->metrics)
		rc = metrics_open(s, o->metrics, e);
	if (rc == 0 && o->web)
		rc = web_open(s, o->web, e);
	if (rc < 0) {
		listening_close(s);
		metrics_close(s);
		uv_walk(loop, daemon_close_walked, NULL);
		uv_run(loop, UV_RUN_DEFAULT);
		free(s);
		return rc;
	}
	uv_timer_init(loop, &s->drain_timer);
	s->drain_timer.data = s;
	wait_report_init(s);
	limits_init(s);
	service_notify_init(s);
	standby_init(s);
	*out = s;
	rc = o->guests ? agentless_job_open(s, o->job, o->guests, e)
		       : daemon_open_journal(s, o, e);
	if (rc < 0)
		daemon_abandon(s);
	else
		service_notify_ready(s);
	return rc;
}

void daemon_run(struct server *s)
{
	uv_run(s->loop, UV_RUN_DEFAULT);
}

void daemon_free(struct server *s)
{
	auth_wipe(&s->auth);
	journal_writer_close(&s->writer);
	server_release_lists(s);
	finished_jobs_release(&s->finished);
	conn_pool_release(&s->pool);
	free(s);
}

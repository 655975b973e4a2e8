/* hosted_job.c: the life of a job on this server, the stores of its rounds, and
 * their workers; the events of a job; and a job without agents. */
#include "rendezvous/server/hosted_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/server/limits.h"
#include "rendezvous/server/server.h"

/* During replay without limits: the journal's keys have fitted once. */
int hosted_job_make_store(struct hosted_job *h)
{
	const struct server *s = h->server;
	const struct store_limits limits = {
		.keys = s->writer.mute ? SIZE_MAX : s->max_keys,
		.bytes = s->writer.mute ? SIZE_MAX : s->max_bytes,
		.value = WIRE_VALUE_MAX,
		.job = job_id(h->job),
		.ranks = job_world_size(h->job),
		.account = h->account,
	};

	reply_cache_limit(&h->replies, limits.ranks);
	h->store = store_new(&limits);
	return h->store ? 0 : -ENOMEM;
}

void hosted_job_end_round(struct hosted_job *h, const char *text)
{
	struct peer *p;

	while ((p = h->workers)) {
		h->workers = p->worker_next;
		p->worker_pprev = NULL;
		p->hosted = NULL;
		h->nworkers--;
		if (h->workers)
			h->workers->worker_pprev = &h->workers;
		session_abort(&p->session, ERR_ABORTED, text);
		conn_refuse(&p->conn, ERR_ABORTED, text);
	}
	reply_cache_release(&h->replies, h->store);
	/* the port frees the store with its last client; a port that a former
	 * server opened does not exist in this process */
	if (h->torch_port && h->torch)
		torch_port_end(h->torch);
	else
		store_free(h->store);
	h->torch_port = 0;
	h->store = NULL;
}

void hosted_job_count_gone(struct hosted_job *h)
{
	size_t now = job_gone_bytes(h->job);

	account_sub(h->account, h->gone_bytes);
	account_add(h->account, now);
	h->gone_bytes = now;
}

static void hosted_job_remove_name(struct hosted_job *h)
{
	if (h->is_named)
		server_unname_job(h);
	h->is_named = 0;
	service_notify_jobs(h->server);
}

/* Enters the job in both tables, replacing the job that had its name; or in
 * neither. Replacing needs no memory. */
static int hosted_job_insert(struct hosted_job *h, int named)
{
	struct server *s = h->server;
	struct hosted_job *before =
		named ? server_find_named_job(s, h->item.key) : NULL;
	int rc = server_add_job(s, h);

	if (rc < 0 || !named)
		return rc;
	if (before)
		hosted_job_remove_name(before);
	rc = server_name_job(s, h);
	if (rc < 0)
		server_remove_job(h);
	return rc;
}

struct hosted_job *hosted_job_restore(struct server *s, struct job *job,
				      uint64_t number, int named)
{
	struct hosted_job *h = calloc(1, sizeof(*h));

	if (h)
		h->account = limits_account(s, SLICE_STR(job_id(job)));
	if (!h || !h->account) {
		job_free(job);
		free(h);
		return NULL;
	}
	h->job = job;
	h->server = s;
	h->number = number;
	h->item.key = SLICE_STR(job_id(h->job));
	if (hosted_job_insert(h, named) < 0) {
		job_free(job);
		account_unref(h->account);
		free(h);
		return NULL;
	}
	h->is_named = named;
	h->since = uv_now(s->loop);
	h->replies.writer = &s->writer;
	h->replies.job = h->number;
	uv_timer_init(s->loop, &h->state_timer);
	uv_timer_init(s->loop, &h->call_timer);
	uv_timer_init(s->loop, &h->back_timer);
	uv_timer_init(s->loop, &h->look.timer);
	uv_timer_init(s->loop, &h->held.timer);
	buf_init(&h->held.frames, HELD_EXITS_MAX);
	h->look.timer.data = h->held.timer.data = h;
	h->state_timer.data = h->call_timer.data = h->back_timer.data = h;
	hosted_job_restart_last_call(h);
	hosted_job_count_gone(h);
	limits_touch(h);
	service_notify_jobs(s);
	return h;
}

static struct hosted_job *hosted_job_new(struct server *s, struct slice id,
					 uint32_t first_round)
{
	struct job *job = job_new(id, first_round);
	struct hosted_job *h = job ? hosted_job_restore(s, job, 0, 1) : NULL;

	if (h)
		journal_writer_opened(&s->writer, h->number, first_round,
				      job_id(job));
	return h;
}

/* The ddprun that started this server runs its only job, once: a node that
 * joins after the job's end is too late. */
static int hosted_job_has_one_run(const struct server *s)
{
	return s->has_parent && s->only_job && !s->leadership && !s->agentless;
}

/* A job that is over is replaced at once, even if some of its nodes are still
 * connected, or were counted as lost and still live. Round numbers continue, so
 * that a worker of the old job is never mistaken for one of the new job. */
struct hosted_job *hosted_job_for_join(struct server *s, struct slice id)
{
	struct hosted_job *h = server_find_named_job(s, id);
	uint32_t first_round;

	if (h && (job_state(h->job) != JOB_OVER || hosted_job_has_one_run(s)))
		return h;
	first_round = h ? job_round(h->job)
			: finished_jobs_next_round(&s->finished, id);
	return hosted_job_new(s, id, first_round);
}

void peer_extend_lease(struct peer *p)
{
	struct server *s = p->server;
	uv_os_fd_t fd;

	if (p->lease_ms <= s->pool.silent_ms)
		return;
	s->pool.silent_ms = p->lease_ms;
	for (int i = 0; i < s->nlisteners; i++)
		sock_set_silence_limit(s->listeners[i].fd, p->lease_ms);
	if (uv_fileno((uv_handle_t *)&p->conn.tcp, &fd) == 0)
		sock_set_silence_limit(fd, p->lease_ms);
}

static void hosted_job_on_timer_closed(uv_handle_t *t)
{
	struct hosted_job *h = t->data;

	if (--h->closing == 0)
		free(h);
}

static void hosted_job_close(struct hosted_job *h)
{
	hosted_job_remove_name(h);
	SERVER_CALL_HOOK(h->server, on_job_closed, h);
	server_remove_job(h);
	job_free(h->job);
	account_sub(h->account, h->gone_bytes);
	account_unref(h->account);
	h->account = NULL;
	h->closing = 5;
	buf_release(&h->held.frames);
	uv_close((uv_handle_t *)&h->state_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->call_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->back_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->look.timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->held.timer, hosted_job_on_timer_closed);
}

void hosted_job_free_if_empty(struct hosted_job *h)
{
	if (h->closing || !job_is_empty(h->job))
		return;
	hosted_job_end_round(h, "the job has no nodes left");
	torch_port_close(h->torch);
	h->torch = NULL;
	SERVER_CALL_HOOK(h->server, on_job_empty, h);
	if (job_state(h->job) == JOB_OVER && hosted_job_has_one_run(h->server))
		return;
	if (job_end(h->job)->text.len)
		finished_jobs_add(&h->server->finished, job_id(h->job),
				  job_end(h->job)->round,
				  job_end(h->job)->text.data);
	hosted_job_close(h);
}

void hosted_job_drop(struct hosted_job *h)
{
	hosted_job_end_round(h, "");
	torch_port_close(h->torch);
	h->torch = NULL;
	hosted_job_close(h);
}

static void hosted_job_add_worker(struct hosted_job *h, struct peer *p)
{
	p->hosted = h;
	conn_charge_to(&p->conn, h->account, sizeof(*p));
	p->session.conn = &p->conn;
	p->session.store = h->store;
	p->session.job = h->job;
	p->session.replies = &h->replies;
	if (h->server->hooks) {
		p->session.explain = h->server->hooks->explain;
		p->session.fate_due = h->server->hooks->fate_due;
	}
	p->session.owner = h;
	p->worker_next = h->workers;
	if (p->worker_next)
		p->worker_next->worker_pprev = &p->worker_next;
	p->worker_pprev = &h->workers;
	h->workers = p;
	h->nworkers++;
}

struct peer *hosted_job_next_worker(const struct hosted_job *h,
				    const struct peer *after)
{
	return after ? after->worker_next : h->workers;
}

/* Attaches the session's reply cache; drops the session's former connection. */
static int hosted_job_attach_session(struct hosted_job *h, struct peer *peer,
				     const struct wire_hello *hello,
				     struct err *e)
{
	struct cached_reply *p = reply_cache_find(&h->replies, hello->session);
	struct peer *other = p ? p->owner : NULL;

	if (other) {
		peer_lose(other, "it reconnected");
		conn_drop(&other->conn);
	}
	p = reply_cache_find_or_make(&h->replies, hello->session, hello->rank);
	if (!p)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	reply_cache_take(&h->replies, p, peer);
	peer->session.id = hello->session;
	peer->session.reply = p;
	return 0;
}

/* The session has a connection already, which this one replaces. */
static int hosted_job_is_session_here(struct hosted_job *h,
				      const struct wire_hello *hello)
{
	const struct cached_reply *p =
		reply_cache_find(&h->replies, hello->session);

	return hello->session && p && p->owner;
}

int hosted_job_admit_worker(struct peer *p, const struct wire_hello *hello,
			    struct err *e)
{
	struct hosted_job *h = server_find_named_job(p->server, hello->job);
	const char *end;
	int rc;

	if (!h && p->server->agentless)
		return err_set(e, ERR_REFUSED,
			       "the server at %s keeps another job's store",
			       p->server->endpoint);
	if (!h) {
		end = finished_jobs_find(&p->server->finished, hello->job,
					 hello->round);
		return err_set(
			e, ERR_ABORTED, "round %u of job '%.*s' is over: %s",
			hello->round, SLICE_FMT(hello->job),
			end ? end : "the job is no longer on this server");
	}
	rc = job_check_round(h->job, hello->round, e);
	if (rc < 0)
		return rc;
	if (hello->rank >= job_world_size(h->job))
		return err_set(e, ERR_ARGUMENT,
			       "rank %u does not exist: job '%s' has %u ranks",
			       hello->rank, job_id(h->job),
			       job_world_size(h->job));
	if (!hosted_job_is_session_here(h, hello) &&
	    (rc = limits_check_client(h, e)) < 0)
		return rc;
	if (h->agentless && (rc = agentless_job_check(h, hello, e)) < 0)
		return rc;
	if (hello->session &&
	    (rc = hosted_job_attach_session(h, p, hello, e)) < 0)
		return rc;
	p->session.rank = hello->rank;
	hosted_job_add_worker(h, p);
	if (h->agentless)
		agentless_job_joined(p, hello);
	return 0;
}

static void hosted_job_lose_worker(struct hosted_job *h, struct peer *p)
{
	h->nworkers--;
	*p->worker_pprev = p->worker_next;
	if (p->worker_next)
		p->worker_next->worker_pprev = p->worker_pprev;
	session_release(&p->session);
	if (p->session.reply)
		reply_cache_leave(&h->replies, h->store, p->session.reply);
	/* a gather may have failed because it left */
	store_answer_all(h->store);
	if (h->agentless)
		agentless_job_left(h, p, "ended without ddp_finalize");
}

void peer_lose(struct peer *p, const char *why)
{
	struct hosted_job *h = p->hosted;

	SERVER_CALL_HOOK(p->server, on_peer_gone, p, why);
	p->hosted = NULL;
	if (!h)
		return;
	if (p->role == WIRE_WORKER) {
		log_debug("job '%s': lost a connection of rank %u: %s",
			  job_id(h->job), p->session.rank, why);
		hosted_job_lose_worker(h, p);
	} else if (p->node) {
		SERVER_CALL_HOOK(h->server, on_agent_gone, h, p);
		job_event_lost(h, p->node, why);
		p->node = NULL;
		hosted_job_act(h);
		if (h->look.agent == p)
			hosted_job_end_look(h);
		hosted_job_free_if_empty(h);
	}
}

struct peer *hosted_job_next_agent(const struct hosted_job *h,
				   struct job_node **n)
{
	while ((*n = job_next_node(h->job, *n)))
		if (job_node_runs(*n) && job_node_owner(*n))
			return job_node_owner(*n);
	return NULL;
}

/* ---- the events of a job: parsed, applied and recorded, in that order ---- */

static int job_event_apply_join(struct hosted_job *h, struct job_node **n,
				void *owner, const struct wire_frame *f,
				struct err *e)
{
	struct wire_join join;
	int rc = wire_get_join(f, &join, e);

	return rc < 0 ? rc
		      : job_join(h->job, &join, owner, h->server->endpoint, n,
				 e);
}

static int job_event_apply_exited(struct hosted_job *h, struct job_node *n,
				  const struct wire_frame *f, struct err *e)
{
	struct wire_exited exited;
	int rc = wire_get_exited(f, &exited, e);

	return rc < 0 ? rc : job_exited(h->job, n, &exited, e);
}

static int job_event_apply_failed(struct hosted_job *h, struct job_node *n,
				  const struct wire_frame *f, struct err *e)
{
	struct wire_failed failed;
	int rc = wire_get_failed(f, &failed, e);

	if (rc == 0)
		job_failed(h->job, n, &failed);
	return rc;
}

static int job_event_apply_leave(struct hosted_job *h, struct job_node *n,
				 const struct wire_frame *f, struct err *e)
{
	struct wire_leave leave;
	int rc = wire_get_leave(f, &leave, e);

	if (rc == 0)
		job_leave(h->job, n, &leave);
	return rc;
}

static int job_event_apply_stop(struct hosted_job *h, struct job_node *n,
				const struct wire_frame *f, struct err *e)
{
	struct wire_stop stop;
	int rc = wire_get_stop(f, &stop, e);

	if (rc == 0)
		job_request_stop(h->job, n, &stop);
	return rc;
}

static int job_event_apply(struct hosted_job *h, struct job_node **n,
			   void *owner, const struct wire_frame *f,
			   struct err *e)
{
	switch (f->type) {
	case WIRE_JOIN:
		return job_event_apply_join(h, n, owner, f, e);
	case WIRE_EXITED:
		return job_event_apply_exited(h, *n, f, e);
	case WIRE_FAILED:
		return job_event_apply_failed(h, *n, f, e);
	case WIRE_LEAVE:
		return job_event_apply_leave(h, *n, f, e);
	case WIRE_STOP:
		return job_event_apply_stop(h, *n, f, e);
	default:
		return err_set(e, ERR_PROTOCOL, "%s is not an event of a job",
			       wire_type_name(f->type));
	}
}

int job_event_take(struct hosted_job *h, struct job_node **n, void *owner,
		   const struct wire_frame *f, struct err *e)
{
	int rc = job_event_apply(h, n, owner, f, e);

	if (rc == 0)
		journal_writer_event(&h->server->writer, h->number,
				     job_node_id(*n), f);
	return rc;
}

void job_event_lost(struct hosted_job *h, struct job_node *n, const char *why)
{
	SERVER_CALL_HOOK(h->server, on_node_lost, h, n, why);
	journal_writer_lost(&h->server->writer, h->number, job_node_id(n), why);
	job_lost(h->job, n, why);
}

void job_event_called(struct hosted_job *h)
{
	journal_writer_called(&h->server->writer, h->number);
	job_last_call(h->job);
}

void job_event_stopped(struct hosted_job *h, const char *why)
{
	journal_writer_stopped(&h->server->writer, h->number, why);
	job_stop(h->job, why);
}

/* ---- a job without agents ---- */

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

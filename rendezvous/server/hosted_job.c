/* hosted_job.c: the life of a job on this server, the stores of its rounds, and
 * their workers. */
#include "rendezvous/server/hosted_job.h"

#include <errno.h>
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
	h->look.timer.data = h;
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
	h->closing = 4;
	uv_close((uv_handle_t *)&h->state_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->call_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->back_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->look.timer, hosted_job_on_timer_closed);
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

/* hosted_job.c: a job on this server: its actions become frames to its agents
 * and answers to its workers, its rounds get a store each. */
#include "rendezvous/server/hosted_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/log.h"
#include "rendezvous/server/agentless_job.h"
#include "rendezvous/server/job_event.h"
#include "rendezvous/server/limits.h"
#include "rendezvous/server/server.h"

enum {
	STATE_DELAY_MS = 20, /* joins in a row are reported together */
	STATE_LATEST_MS = 250,
	STATES_PER_MS = 10, /* at most: a twentieth of the server's time */
};

#define CALL_HOOK(s, hook, ...)                        \
	do {                                           \
		if ((s)->hooks && (s)->hooks->hook)    \
			(s)->hooks->hook(__VA_ARGS__); \
	} while (0)

/* ---- messages to nodes ---- */

/* At least 1, because 0 means that there is no last call. */
static uint32_t hosted_job_last_call_ms(const struct hosted_job *h)
{
	uint64_t left = uv_timer_get_due_in(&h->call_timer);

	return left ? (uint32_t)left : 1;
}

static void hosted_job_broadcast_state(struct hosted_job *h)
{
	struct job_node *n = NULL;
	struct wire_state m;

	h->states_sent = 0;
	job_state_for(h->job, &m);
	if (m.last_call_ms)
		m.last_call_ms = hosted_job_last_call_ms(h);
	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (!to || !job_node_waits(h->job, n))
			continue;
		h->states_sent++;
		m.spare = (uint8_t)job_node_is_spare(n);
		wire_put_state(conn_out(&to->conn), WIRE_STATE, WIRE_NOTICE, 0,
			       &m);
	}
	conn_flush_all(&h->server->pool);
}

/* A thousand joins a second must not cause a million messages: while nodes keep
 * joining, STATE is sent late, and seldom enough that it takes about a
 * twentieth of the server's time, however many nodes wait. */
static void hosted_job_on_state_timer(uv_timer_t *t)
{
	struct hosted_job *h = t->data;
	uint64_t latest = h->states_sent / STATES_PER_MS;

	if (latest < STATE_LATEST_MS)
		latest = STATE_LATEST_MS;
	if (h->is_state_stale &&
	    uv_now(h->server->loop) - h->state_since < latest) {
		h->is_state_stale = 0;
		uv_timer_start(t, hosted_job_on_state_timer, STATE_DELAY_MS, 0);
		return;
	}
	hosted_job_broadcast_state(h);
}

void hosted_job_send_state(struct hosted_job *h)
{
	h->is_state_stale = 1;
	if (uv_is_active((uv_handle_t *)&h->state_timer))
		return;
	h->is_state_stale = 0;
	h->state_since = uv_now(h->server->loop);
	uv_timer_start(&h->state_timer, hosted_job_on_state_timer,
		       STATE_DELAY_MS, 0);
}

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

void hosted_job_send_start(struct hosted_job *h, const struct job_node *n)
{
	struct peer *to = job_node_owner(n);
	struct wire_start m;

	if (!to || !job_node_runs(n))
		return;
	job_start_for(h->job, n, &m);
	if (h->torch_port) {
		m.master_port = h->torch_port;
		m.agent_store = 1;
	}
	wire_put_start(conn_out(&to->conn), WIRE_START, WIRE_NOTICE, 0, &m);
}

static void hosted_job_start_round(struct hosted_job *h)
{
	struct job_node *n = NULL;

	uv_timer_stop(&h->call_timer);
	h->since = uv_now(h->server->loop);
	h->server->counts.rounds++;
	if (hosted_job_make_store(h) < 0) {
		job_event_stopped(h, "the rendezvous server is out of memory");
		return;
	}
	/* a journal's next record says where it was; that one is gone */
	if (!h->server->writer.mute)
		CALL_HOOK(h->server, on_round, h);
	while ((n = job_next_node(h->job, n)))
		hosted_job_send_start(h, n);
}

static void hosted_job_send_stop(struct hosted_job *h)
{
	struct job_node *n = NULL;
	struct wire_stop m;

	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (to && job_stop_for(h->job, n, &m))
			wire_put_stop(conn_out(&to->conn), WIRE_STOP,
				      WIRE_NOTICE, 0, &m);
	}
}

/* Frees the round's keyspace, and closes the workers that used it. */
static void hosted_job_end_round_workers(struct hosted_job *h, const char *text)
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
	/* the store goes with its last client; the port of a server before this
	 * one is not here */
	if (h->torch_port && h->torch)
		torch_port_end(h->torch);
	else
		store_free(h->store);
	h->torch_port = 0;
	h->store = NULL;
}

static void hosted_job_send_end(struct hosted_job *h)
{
	uint64_t now = uv_now(h->server->loop);
	struct job_node *n = NULL;
	struct wire_end end;

	uv_timer_stop(&h->call_timer);
	h->since = now;
	h->server->counts.restarts += job_end(h->job)->verdict == WIRE_RESTART;
	h->server->counts.changes += job_end(h->job)->verdict == WIRE_REGROUP;
	while ((n = job_next_node(h->job, n))) {
		struct peer *to = job_node_owner(n);

		if (!to || !job_end_for(h->job, n, &end))
			continue;
		wire_put_end(conn_out(&to->conn), WIRE_END, WIRE_NOTICE, 0,
			     &end);
		if (end.verdict == WIRE_RESTART || end.verdict == WIRE_REGROUP)
			continue;
		if (h->server->has_parent && job_node_hosts(n))
			h->server->is_ending = 1;
		to->close_at = now + SERVER_CLOSE_MS;
		conn_due(&to->conn, now + 1);
	}
	hosted_job_end_round_workers(h, job_end(h->job)->text.data);
}

static void hosted_job_on_last_call(uv_timer_t *t)
{
	struct hosted_job *h = t->data;

	job_event_called(h);
	hosted_job_act(h);
	conn_flush_all(&h->server->pool);
}

/* The agents report that the connection ended; the journal stays. */
static _Noreturn void hosted_job_end_without_memory(void)
{
	log_error("error: out of memory; this server exits, and its jobs end");
	exit(EX_OSERR);
}

/* Charges what the job remembers of gone nodes to its account. */
static void hosted_job_count_gone(struct hosted_job *h)
{
	size_t now = job_gone_bytes(h->job);

	account_sub(h->account, h->gone_bytes);
	account_add(h->account, now);
	h->gone_bytes = now;
}

void hosted_job_act(struct hosted_job *h)
{
	const struct job_action *a;

	limits_touch(h);
	hosted_job_count_gone(h);
	while ((a = job_next_action(h->job))) {
		switch (a->kind) {
		case JOB_TELL_STATE:
			hosted_job_send_state(h);
			CALL_HOOK(h->server, on_wait, h->server);
			break;
		case JOB_TELL_START:
			hosted_job_start_round(h);
			break;
		case JOB_RANK_LEFT:
			/* else a gather that lacks it would wait for ever */
			if (store_rank_left(h->store, a->rank, a->text) < 0)
				hosted_job_end_without_memory();
			store_answer_all(h->store);
			CALL_HOOK(h->server, on_wait, h->server);
			break;
		case JOB_FATE_KNOWN:
			session_send_fate(a->fate, a->text);
			break;
		case JOB_TELL_STOP:
			hosted_job_send_stop(h);
			break;
		case JOB_TELL_END:
			hosted_job_send_end(h);
			break;
		case JOB_LAST_CALL:
			uv_timer_start(&h->call_timer, hosted_job_on_last_call,
				       a->rank, 0);
			break;
		case JOB_LAST_CALL_OFF:
			uv_timer_stop(&h->call_timer);
			break;
		case JOB_CANNOT_START:
			job_event_stopped(h, "the rendezvous server is out of "
					     "memory");
			break;
		}
	}
	if (job_lost_action(h->job))
		hosted_job_end_without_memory();
}

/* ---- life ---- */

static void hosted_job_remove_name(struct hosted_job *h)
{
	if (h->is_named)
		server_unname_job(h);
	h->is_named = 0;
	service_notify_jobs(h->server);
}

/* Restarts the timer of a last call that was pending in the journal. */
static void hosted_job_restart_last_call(struct hosted_job *h)
{
	uint32_t ms = job_call_ms(h->job);

	if (ms)
		uv_timer_start(&h->call_timer, hosted_job_on_last_call, ms, 0);
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

/* The server's only job is run once by the ddprun that started the server: a
 * node that comes when it is over is late. */
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
	CALL_HOOK(h->server, on_job_closed, h);
	server_remove_job(h);
	job_free(h->job);
	account_sub(h->account, h->gone_bytes);
	account_unref(h->account);
	h->account = NULL;
	h->closing = 3;
	uv_close((uv_handle_t *)&h->state_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->call_timer, hosted_job_on_timer_closed);
	uv_close((uv_handle_t *)&h->back_timer, hosted_job_on_timer_closed);
}

void hosted_job_free_if_empty(struct hosted_job *h)
{
	if (h->closing || !job_is_empty(h->job))
		return;
	hosted_job_end_round_workers(h, "the job has no nodes left");
	torch_port_close(h->torch);
	h->torch = NULL;
	CALL_HOOK(h->server, on_job_empty, h);
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
	hosted_job_end_round_workers(h, "");
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

	CALL_HOOK(p->server, on_peer_gone, p, why);
	p->hosted = NULL;
	if (!h)
		return;
	if (p->role == WIRE_WORKER) {
		log_debug("job '%s': lost a connection of rank %u: %s",
			  job_id(h->job), p->session.rank, why);
		hosted_job_lose_worker(h, p);
	} else if (p->node) {
		CALL_HOOK(h->server, on_agent_gone, h, p);
		job_event_lost(h, p->node, why);
		p->node = NULL;
		hosted_job_act(h);
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

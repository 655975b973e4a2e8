/* reconnect.c: the time of a loss, its lines in the log, and the probe. */
#include "launcher/membership/reconnect.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"

/* ---- the probe ---- */

static void probe_on_try_closed(uv_handle_t *h)
{
	struct probe_try *t = h->data;

	t->open = 0;
}

static void probe_end_try(struct probe_try *t)
{
	if (t->open && !uv_is_closing((uv_handle_t *)&t->tcp))
		uv_close((uv_handle_t *)&t->tcp, probe_on_try_closed);
}

static void probe_stop(struct probe *p)
{
	p->running = 0;
	uv_timer_stop(&p->timer);
	for (int i = 0; i < PROBE_TRIES; i++)
		probe_end_try(&p->tries[i]);
}

static void probe_on_connect(uv_connect_t *req, int status)
{
	struct probe_try *t = req->data;
	struct probe *p = t->probe;

	probe_end_try(t);
	if (!p->running || (status < 0 && status != UV_ECONNREFUSED))
		return;
	probe_stop(p);
	p->on_reached(p->owner);
}

static void probe_on_time(uv_timer_t *timer)
{
	struct probe *p = timer->data;
	struct probe_try *t = &p->tries[p->next++ % PROBE_TRIES];

	probe_end_try(&p->tries[p->next % PROBE_TRIES]);
	if (t->open)
		return;
	if (uv_tcp_init(p->timer.loop, &t->tcp) < 0)
		return;
	t->open = 1;
	t->probe = p;
	t->tcp.data = t->connect.data = t;
	if (uv_tcp_connect(&t->connect, &t->tcp,
			   (const struct sockaddr *)&p->addr.ss,
			   probe_on_connect) < 0)
		probe_end_try(t);
}

/* p must live as long as the loop. */
static void probe_init(struct probe *p, uv_loop_t *loop,
		       void (*on_reached)(void *owner), void *owner)
{
	uv_timer_init(loop, &p->timer);
	p->timer.data = p;
	p->on_reached = on_reached;
	p->owner = owner;
}

/* Idempotent while it runs. */
static void probe_start(struct probe *p, const struct sock_addr *addr,
			uint64_t every_ms)
{
	if (p->running)
		return;
	p->running = 1;
	p->addr = *addr;
	uv_timer_start(&p->timer, probe_on_time, 0, every_ms ? every_ms : 1);
}

static void probe_close(struct probe *p)
{
	probe_stop(p);
	uv_close((uv_handle_t *)&p->timer, NULL);
}

enum {
	UNANSWERED_MANY = 4, /* pings: no short stall any more */
	QUIET_MS = 1000,     /* no line for a loss that is over by then, where
			      * etcd chooses another server */
};

static void reconnect_note_time(struct reconnect *r)
{
	time_t now = time(NULL);
	struct tm tm;

	r->lost_ms = clock_ms();
	strftime(r->when, sizeof(r->when), "%H:%M:%S", localtime_r(&now, &tm));
}

void reconnect_error(struct reconnect *r, struct err *e)
{
	char at[SOCK_TEXT_MAX];

	err_set(e, ERR_REMOTE,
		"the rendezvous server at %s was lost at %s: %.900s",
		connection_server_text(r->connection, at), r->when,
		r->why.text);
}

int reconnect_is_left_behind(const struct reconnect *r)
{
	return r->connection->role == ROLE_CANDIDATE &&
	       (r->is_silent || r->connection->supervisor.cut_off);
}

/* ---- lost ---- */

static void reconnect_log_lost(struct reconnect *r)
{
	r->is_logged = 1;
	/* our own is started again, and its supervisor has logged that */
	if (r->connection->role != ROLE_HOST)
		log_warn("%s; %ssearching for it for %g s (--rdzv-conf "
			 "reconnect_timeout)",
			 r->why.text,
			 r->has_workers ? "the workers continue, " : "",
			 r->options->reconnect_s);
}

static void reconnect_on_timer(uv_timer_t *t);

/* For the time that is left, or until the loss is worth a line. */
static void reconnect_start_timer(struct reconnect *r, uint64_t gone_ms)
{
	uint64_t ms = r->options->reconnect_ms;

	ms = ms > gone_ms ? ms - gone_ms : 0;
	if (!r->is_logged && ms > QUIET_MS)
		ms = QUIET_MS;
	uv_timer_start(&r->timer, reconnect_on_timer, ms, 0);
}

static void reconnect_on_timer(uv_timer_t *t)
{
	struct reconnect *r = t->data;
	const struct err *last = &r->connection->last;
	struct err e = ERR_INIT;

	if (!r->is_logged) {
		reconnect_log_lost(r);
		reconnect_start_timer(r, clock_ms() - r->lost_ms);
		return;
	}
	err_set(&e, ERR_TIMEOUT,
		"it did not come back within %g s "
		"(--rdzv-conf reconnect_timeout)%s%.300s",
		r->options->reconnect_s, last->code ? ": " : "", last->text);
	r->events->on_timeout(r->owner, &e);
}

void reconnect_start(struct reconnect *r, const struct err *why,
		     int has_workers)
{
	r->why = *why;
	r->has_workers = has_workers;
	reconnect_note_time(r);
	r->is_logged = 0;
	if (r->connection->role != ROLE_CANDIDATE)
		reconnect_log_lost(r);
	reconnect_start_timer(r, 0);
}

void reconnect_start_quietly(struct reconnect *r)
{
	char at[SOCK_TEXT_MAX];

	err_set(&r->why, -ETIMEDOUT,
		"the network to the rendezvous server at %s was down",
		connection_server_text(r->connection, at));
	log_debug("%s: connecting again", r->why.text);
	reconnect_note_time(r);
}

void reconnect_give_up(struct reconnect *r, const char *text)
{
	struct err why = r->why;

	uv_timer_stop(&r->timer);
	err_set(&r->why, ERR_REMOTE, "%.500s; %.500s", why.text, text);
}

/* ---- stalled ---- */

/* The connection is up, and what we sent is not acknowledged. */
static int reconnect_is_stalled(const struct reconnect *r)
{
	return r->connection->phase == CONNECTION_IN &&
	       async_client_is_stalled(&r->connection->link);
}

/* If the connection is not stalled any more, the other direction still is: the
 * server's replies wait for its TCP to try again. */
static void reconnect_on_reached(void *owner)
{
	struct reconnect *r = owner;

	if (r->stalled && r->connection->phase == CONNECTION_IN)
		r->events->on_reachable(r->owner);
}

void reconnect_check_stall(struct reconnect *r, unsigned unanswered,
			   uint64_t ping_ms)
{
	r->stalled += (unsigned)reconnect_is_stalled(r);
	if (unanswered >= UNANSWERED_MANY)
		log_debug("%u of %d consecutive pings are unanswered",
			  unanswered, WIRE_PINGS);
	if (r->options->reconnect_ms && r->stalled &&
	    (unanswered >= UNANSWERED_MANY || r->stalled >= UNANSWERED_MANY))
		probe_start(&r->probe, &r->connection->link.addr, ping_ms / 2);
}

void reconnect_on_heard(struct reconnect *r)
{
	if (reconnect_is_stalled(r))
		return;
	reconnect_on_gone(r);
}

void reconnect_on_gone(struct reconnect *r)
{
	r->stalled = 0;
	probe_stop(&r->probe);
}

/* ---- back ---- */

/* The supervisor has just logged that it restarted our own server. */
static int reconnect_is_restart_logged(const struct reconnect *r)
{
	uint64_t again_ms = r->connection->supervisor.again_ms;

	return again_ms && again_ms + QUIET_MS > r->lost_ms;
}

/* A loss that was over before it was logged is one line in all. */
static void reconnect_log_back(const struct reconnect *r)
{
	double s = (double)(clock_ms() - r->lost_ms) / 1e3;
	char at[SOCK_TEXT_MAX];

	connection_server_text(r->connection, at);
	if (r->is_logged && r->connection->role == ROLE_CANDIDATE)
		log_info("the job's server is at %s after %.3f s", at, s);
	else if (r->is_logged && r->connection->role != ROLE_HOST)
		log_info("the rendezvous server at %s is back after %.3f s", at,
			 s);
	else if (!r->is_logged && !reconnect_is_restart_logged(r))
		log_info("%s; the job's server is at %s after %.3f s",
			 r->why.text, at, s);
	log_debug("back after %.0f ms", s * 1e3);
}

void reconnect_stop(struct reconnect *r, int is_quiet)
{
	uv_timer_stop(&r->timer);
	if (is_quiet)
		log_debug("the rendezvous server answers again");
	else
		reconnect_log_back(r);
	r->is_silent = 0;
	r->connection->supervisor.cut_off = 0;
}

/* ---- from start to end ---- */

void reconnect_init(struct reconnect *r, uv_loop_t *loop,
		    struct connection *connection,
		    const struct reconnect_events *events, void *owner)
{
	*r = (struct reconnect){
		.events = events,
		.owner = owner,
		.options = connection->options,
		.connection = connection,
	};
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	probe_init(&r->probe, loop, reconnect_on_reached, r);
}

void reconnect_stop_timers(struct reconnect *r)
{
	uv_timer_stop(&r->timer);
	probe_stop(&r->probe);
}

void reconnect_close(struct reconnect *r)
{
	uv_close((uv_handle_t *)&r->timer, NULL);
	probe_close(&r->probe);
}

/* connection.c: from the endpoint to a connection that a server has greeted;
 * and what follows when an attempt fails or a connection is lost: another
 * attempt, another place, or the end. */
#include "launcher/membership/connection.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/membership/connection_internal.h"

enum {
	BACKOFF_MIN_MS = 5,
	BACKOFF_QUICK_MS = 50,
	BACKOFF_MAX_MS = 1000,
	AGAIN_MAX_MS = 250, /* backoff, where a server was lost */
	CHECKED_MS = 15000, /* the server's munge, which tries for 10 s */
	GREETING_MS = 5000,
	CONNECT_MS = 1500,  /* of GREETING_MS, where another server may come */

	/* ---- after a failure or a loss ---- */
	NO_ETCD_MS = 8000,   /* each such answer takes 2 s */
	HELD_MS = 1000,	     /* an answer that took longer was held back until
			      * there might be a server; a sooner one: etcd
			      * refused us by name */
	MUTE_MS = 7000,	     /* a server that ends may take 5 s for it */
	REFUSED_MS = 10000,  /* the right one of several may still begin */
	HAND_OVER_MS = 1000, /* a server that makes way for another closes */
};

static void connection_attempt(struct connection *c);
static void connection_attempt_later(struct connection *c);

void connection_fail(struct connection *c, const struct err *why)
{
	if (c->phase == CONNECTION_OVER)
		return;
	connection_hang_up(c);
	c->events->on_lost(c, why);
}

/* ---- an attempt failed, or a connection is lost ---- */

static int connection_is_unanswered(int code)
{
	return code == -ETIMEDOUT || code == -EHOSTUNREACH ||
	       code == -ENETUNREACH;
}

/* Nobody listens there, or the network says so. */
static int connection_is_unreachable(int code)
{
	return code == -ECONNREFUSED || connection_is_unanswered(code);
}

/* Connections are accepted, but nothing comes. */
static int connection_is_mute(struct connection *c, const struct err *why)
{
	uint64_t now = clock_ms();

	if (connection_is_unreachable(why->code)) {
		c->mute_since_ms = 0;
		return 0;
	}
	if (!c->mute_since_ms)
		c->mute_since_ms = now;
	return now - c->mute_since_ms > MUTE_MS;
}

/* What listens there is no ddprdzv that works; what says why. */
static void connection_fail_mute(struct connection *c, const char *what)
{
	char at[SOCK_TEXT_MAX];
	struct err e = ERR_INIT;

	err_set(&e, ERR_PROTOCOL,
		"rendezvous server %s: the program that listens there %s, so "
		"it is not a working ddprdzv; choose another port with "
		"--rdzv-endpoint HOST:PORT",
		sock_addr_text(&c->addr, at), what);
	connection_fail(c, &e);
}

/* The server that we asked knows of none: it has waited for one, or cannot
 * know. On a first attempt the user may have got etcd's name wrong. 1: dealt
 * with. */
static int connection_lacks_server(struct connection *c, const struct err *why)
{
	struct err e = *why;
	uint64_t now = clock_ms();
	int was_held = now - c->called_ms > HELD_MS;

	if (why->code != ERR_NOT_YET && why->code != ERR_NO_ETCD)
		return 0;
	if (c->search == SEARCH_FIRST && why->code == ERR_NO_ETCD &&
	    (!was_held || now - c->began_ms > NO_ETCD_MS)) {
		connection_fail(c, &e);
		return 1;
	}
	if (was_held)
		c->backoff_ms = BACKOFF_MIN_MS;
	connection_retry(c, why);
	return 1;
}

static int connection_is_refusal(int code)
{
	return code == ERR_PROOF || code == ERR_REFUSED;
}

/* Another user's server may have one of our ports, and ours the next; or the
 * secret is wrong. */
static int connection_is_refused_everywhere(struct connection *c,
					    const struct err *why)
{
	uint64_t now = clock_ms();

	if (!connection_is_refusal(why->code))
		return 0;
	if (!c->refused_since_ms)
		c->refused_since_ms = now;
	return now - c->refused_since_ms > REFUSED_MS;
}

/* It closed on our proof, as a server that dies also does: once more, at once.
 */
static void connection_on_refusal(struct connection *c, const struct err *why)
{
	struct err e = *why;

	if (c->refusals++ == 0 ||
	    (c->role == ROLE_CANDIDATE &&
	     clock_ms() - c->refused_since_ms < HAND_OVER_MS)) {
		if (c->refusals == 1)
			c->refused_since_ms = clock_ms();
		connection_retry(c, why);
		return;
	}
	e.code = ERR_PROOF;
	connection_fail(c, &e);
}

/* Another process may have one of several ports; but where the server of this
 * very job refuses us, by its greeting, no other will do. */
static int connection_may_be_elsewhere(const struct connection *c,
				       const struct err *why)
{
	if (!c->options->nports || c->role == ROLE_HOST ||
	    c->search != SEARCH_FIRST)
		return 0;
	if (connection_is_refusal(why->code))
		return !c->link.hand.ours;
	return c->phase == CONNECTION_CALLING || why->code == ERR_PROTOCOL;
}

static void connection_try_elsewhere(struct connection *c,
				     const struct err *why)
{
	struct err e = *why;

	if (!connection_is_refused_everywhere(c, why)) {
		connection_retry(c, why);
		return;
	}
	e.code = ERR_PROOF;
	connection_fail(c, &e);
}

/* The server that greeted us is lost. 1: it is looked for. */
static int connection_search_again(struct connection *c, const struct err *why)
{
	int hopeless = c->candidate_error.code != 0;

	if (c->phase == CONNECTION_IN || c->search == SEARCH_SAME) {
		c->search = SEARCH_AGAIN;
		c->backoff_ms = BACKOFF_MIN_MS;
		c->own_lost_ms =
			connection_is_own_candidate(c) ? clock_ms() : 0;
		if (!c->events->on_away(c, hopeless ? &c->candidate_error : why,
					hopeless))
			return 0;
	}
	if (c->phase != CONNECTION_OVER && hopeless)
		connection_stop_search(c);
	else if (c->phase != CONNECTION_OVER)
		connection_retry(c, why);
	return 1;
}

/* A connection that was greeted, and is not looked for again. */
static void connection_fail_lost(struct connection *c, const struct err *why)
{
	struct err e = *why;

	if (e.code != ERR_PROTOCOL)
		e.code = ERR_REMOTE;
	connection_fail(c, &e);
}

static void connection_on_link_lost(struct async_client *l,
				    const struct err *why)
{
	struct connection *c = l->owner;
	struct err e = *why;

	if (c->phase == CONNECTION_OVER)
		return;
	uv_timer_stop(&c->greeting);
	if (connection_lacks_server(c, why))
		return;
	if (c->search == SEARCH_SAME && connection_is_unanswered(e.code)) {
		connection_retry(c, &e);
	} else if (c->search != SEARCH_FIRST && !l->was_refused &&
		   e.code != ERR_PROTOCOL && connection_search_again(c, why)) {
		return;
	} else if (connection_may_be_elsewhere(c, why)) {
		connection_try_elsewhere(c, &e);
	} else if (c->phase == CONNECTION_IN) {
		connection_fail_lost(c, &e);
	} else if (e.code == ERR_REFUSED) {
		connection_on_refusal(c, &e);
	} else if (e.code == ERR_PROTOCOL || e.code == ERR_PROOF) {
		connection_fail(c, &e);
	} else if (connection_is_mute(c, why)) {
		connection_fail_mute(c,
				     "closes each connection without a reply");
	} else if (connection_host_is_unheard(c, why, &e)) {
		connection_fail(c, &e);
	} else {
		log_debug("no connection yet: %s", why->text);
		c->last = *why;
		c->phase = CONNECTION_OUT;
		async_client_close(l);
	}
}

/* ---- another place ---- */

/* The next address or port to try: 1 if all have been tried. */
static int connection_next_place(struct connection *c)
{
	if (++c->next_addr < c->naddrs)
		return 0;
	c->next_addr = 0;
	if (++c->next_port < c->options->nports)
		return 0;
	c->next_port = 0;
	return 1;
}

/* Where the server is, is known. */
static int connection_knows_place(const struct connection *c)
{
	return c->role != ROLE_GUEST || c->search != SEARCH_FIRST;
}

/* When nodes are started together, the host is ready some milliseconds after
 * the others, which need not try all its ports yet. */
static int connection_is_early(const struct connection *c)
{
	return c->backoff_ms < BACKOFF_QUICK_MS &&
	       connection_is_unreachable(c->last.code);
}

/* ---- the link's events ---- */

static void connection_on_closed(struct async_client *l)
{
	struct connection *c = l->owner;

	c->link_open = 0;
	if (c->phase != CONNECTION_OUT)
		return;
	if (c->refusals == 1)
		connection_attempt(c);
	else if (connection_knows_place(c) || connection_is_early(c) ||
		 connection_next_place(c) || !c->options->nports)
		connection_attempt_later(c);
	else
		connection_attempt(c);
}

static void connection_on_link_open(struct async_client *l)
{
	struct connection *c = l->owner;

	c->phase = CONNECTION_IN;
	c->search = SEARCH_AGAIN;
	c->key = l->hand.key;
	c->refusals = 0;
	c->refused_since_ms = 0;
	c->last = c->unresolved = (struct err)ERR_INIT;
	c->mute_since_ms = 0;
	uv_timer_stop(&c->greeting);
	if (c->role == ROLE_CANDIDATE)
		server_supervisor_learn_key(&c->supervisor, &c->key);
	c->events->on_greeted(c);
}

static void connection_on_link_frame(struct async_client *l,
				     const struct wire_frame *f)
{
	struct connection *c = l->owner;
	struct wire_error m;
	struct err e = ERR_INIT;

	/* another job's server, at one of our ports */
	if (c->options->nports && f->type == WIRE_HELLO &&
	    f->kind == WIRE_ERROR_REPLY && wire_get_error(f, &m, NULL) == 0 &&
	    m.code == ERR_REFUSED) {
		err_set(&e, m.code, "%.*s", SLICE_FMT(m.text));
		connection_retry(c, &e);
		return;
	}
	c->events->on_frame(c, f);
}

static const struct async_client_events link_events = {
	.on_open = connection_on_link_open,
	.on_frame = connection_on_link_frame,
	.on_lost = connection_on_link_lost,
	.on_closed = connection_on_closed,
};

/* ---- attempts ---- */

static void connection_on_retry(uv_timer_t *t)
{
	connection_attempt(t->data);
}

static void connection_attempt_later(struct connection *c)
{
	unsigned max_ms =
		c->search == SEARCH_FIRST ? BACKOFF_MAX_MS : AGAIN_MAX_MS;

	if (c->unresolved.code && clock_ms() > c->unresolved_until_ms) {
		connection_fail(c, &c->unresolved);
		return;
	}
	if (c->search == SEARCH_STOPPED)
		return;
	uv_timer_start(&c->retry, connection_on_retry, c->backoff_ms, 0);
	c->backoff_ms = c->backoff_ms < max_ms / 2 ? c->backoff_ms * 2 : max_ms;
	connection_look_again(c);
}

/* The attempt has had its time. */
static void connection_give_up_attempt(struct connection *c)
{
	char at[SOCK_TEXT_MAX];

	err_set(&c->last, -ETIMEDOUT, "no answer from %s",
		c->role == ROLE_CANDIDATE ? connection_server_text(c, at)
					  : c->where);
	c->phase = CONNECTION_OUT;
	async_client_close(&c->link);
}

/* No greeting yet: the server may be slow, stopped, or no server of ours. */
static void connection_on_silence(uv_timer_t *t)
{
	struct connection *c = t->data;
	int is_candidate = c->role == ROLE_CANDIDATE;
	uint64_t gone_ms = clock_ms() - c->called_ms;

	if (async_client_munge_is_late(&c->link, NULL) ||
	    (async_client_is_checked(&c->link) && gone_ms < CHECKED_MS)) {
		uv_timer_start(t, connection_on_silence, GREETING_MS, 0);
		return;
	}
	connection_host_check_stopped(c);
	if (!c->link.speaks) {
		uv_timer_start(t, connection_on_silence,
			       is_candidate ? CONNECT_MS : GREETING_MS, 0);
		async_client_send_preface(&c->link);
		return;
	}
	/* it may be on its way to a server other than the one we called */
	if (is_candidate && async_client_is_connected(&c->link) &&
	    gone_ms < GREETING_MS) {
		uv_timer_start(t, connection_on_silence,
			       GREETING_MS - CONNECT_MS, 0);
		return;
	}
	if (c->role == ROLE_HOST && c->search == SEARCH_FIRST) {
		/* it is ours, and slow: the port is no other program's */
		uv_timer_start(t, connection_on_silence, GREETING_MS, 0);
		return;
	}
	if (!c->options->nports && c->search == SEARCH_FIRST && !is_candidate &&
	    async_client_is_connected(&c->link))
		connection_fail_mute(c, "has been silent for 5 s");
	else
		connection_give_up_attempt(c);
}

static void connection_call(struct connection *c)
{
	const struct wire_hello hello = {
		.role = WIRE_AGENT,
		.job = SLICE_STR(c->options->job),
		.host = SLICE_STR(c->host),
		.session = c->session,
	};
	struct err e = ERR_INIT;
	int rc = async_client_start(&c->link, c->loop, &c->addr, &hello,
				    &c->auth, &link_events, &e);

	if (c->refusals)
		c->refusals = 2;
	if (rc < 0) {
		c->last = e;
		connection_next_place(c);
		connection_attempt_later(c);
		return;
	}
	c->link.owner = c;
	c->link_open = 1;
	c->phase = CONNECTION_CALLING;
	c->called_ms = clock_ms();
	/* where PyTorch's clients come as well, the server waits for a word */
	if (c->options->shares_port)
		async_client_send_preface(&c->link);
	uv_timer_start(&c->greeting, connection_on_silence,
		       c->link.speaks ? GREETING_MS : LINK_PATIENCE_MS, 0);
	c->events->on_calling(c);
}

/* Hosts the server if the endpoint is ours and free, then connects. */
static void connection_attempt(struct connection *c)
{
	struct err e = ERR_INIT;
	int is_known = connection_knows_place(c);
	int rc = is_known ? 0 : connection_host(c, &e);

	if (rc == -EADDRNOTAVAIL && !c->options->etcd.members &&
	    !c->options->endpoint.port) {
		err_set(&e, ERR_USAGE,
			"the rendezvous %s has port 0, which means any free "
			"port of that host: start ddprun there first, then "
			"here with the port that it prints",
			c->where);
		connection_fail(c, &e);
		return;
	}
	if (!is_known && c->role != ROLE_HOST && rc == -EADDRNOTAVAIL) {
		c->addr = c->addrs[c->next_addr];
		if (c->options->nports)
			sock_addr_set_port(&c->addr,
					   c->options->ports[c->next_port]);
	} else if (!is_known && c->role != ROLE_HOST && rc < 0) {
		connection_fail(c, &e);
		return;
	}
	connection_call(c);
}

/* ---- begin ---- */

/* A job that no other node joins has a secret of its own. */
static int connection_choose_auth(struct connection *c, struct err *e)
{
	const struct rdzv_options *o = c->options;
	int rc;

	if (o->handed.methods) {
		c->auth = o->handed;
		return 0;
	}
	if (o->private_endpoint &&
	    auth_is_free(o->auth_text, o->token_file))
		return auth_random(&c->auth, "this ddprun", e);
	rc = auth_choose(&c->auth, o->auth_text, o->token_file, e);
	if (rc < 0 && o->max_nodes == 1 && !o->etcd.members)
		rc = auth_alone(&c->auth, o->auth_text, o->token_file,
				e);
	if (rc == 0 && c->auth.without_munge)
		log_info("joining nodes authenticate with %s", c->auth.from);
	return rc;
}

int connection_init(struct connection *c, uv_loop_t *loop,
		    const struct rdzv_options *options, const char *host,
		    const struct connection_events *events, struct err *e)
{
	*c = (struct connection){
		.events = events,
		.loop = loop,
		.options = options,
		.host = host,
		.supervisor = SERVER_SUPERVISOR_INIT,
		.backoff_ms = BACKOFF_MIN_MS,
		.unresolved = ERR_INIT,
		.candidate_error = ERR_INIT,
	};
	if (options->etcd.members)
		etcd_options_text(&options->etcd, c->where);
	else
		endpoint_text(&options->endpoint, c->where);
	if (connection_choose_auth(c, e) < 0 ||
	    random_bytes(&c->session, sizeof(c->session), e) < 0)
		return e->code;
	c->naddrs = connection_resolve(c, e);
	if (c->naddrs < 0)
		return c->naddrs;
	uv_timer_init(loop, &c->retry);
	uv_timer_init(loop, &c->greeting);
	c->retry.data = c->greeting.data = c;
	c->timers_open = 1;
	return 0;
}

void connection_start(struct connection *c)
{
	c->began_ms = clock_ms();
	connection_attempt(c);
}

/* ---- another connection, or none ---- */

static void connection_set_out(struct connection *c, const struct err *why)
{
	c->last = *why;
	c->mute_since_ms = 0;
	c->phase = CONNECTION_OUT;
	uv_timer_stop(&c->greeting);
}

void connection_retry(struct connection *c, const struct err *why)
{
	connection_set_out(c, why);
	async_client_drop(&c->link);
}

void connection_renew(struct connection *c, const struct err *why)
{
	c->search = SEARCH_SAME;
	c->backoff_ms = BACKOFF_MIN_MS;
	connection_set_out(c, why);
	async_client_tear(&c->link);
}

int connection_lose_silent(struct connection *c, const struct err *why)
{
	if (c->role != ROLE_CANDIDATE)
		return 0;
	uv_timer_stop(&c->greeting);
	return connection_search_again(c, why);
}

void connection_stop_search(struct connection *c)
{
	c->search = SEARCH_STOPPED;
	uv_timer_stop(&c->retry);
	connection_retry(c, &c->last);
}

void connection_hang_up(struct connection *c)
{
	c->phase = CONNECTION_OVER;
	if (c->timers_open) {
		uv_timer_stop(&c->retry);
		uv_timer_stop(&c->greeting);
	}
	if (c->link_open)
		async_client_close(&c->link);
}

void connection_close(struct connection *c)
{
	connection_hang_up(c);
	connection_stop_looking(c);
	if (c->timers_open) {
		uv_close((uv_handle_t *)&c->retry, NULL);
		uv_close((uv_handle_t *)&c->greeting, NULL);
	}
	c->timers_open = 0;
	auth_wipe(&c->auth);
	server_supervisor_stop(&c->supervisor);
}

/* ---- what is known ---- */

char *connection_job_key(const struct connection *c, char *text)
{
	text[0] = '\0';
	if (c->auth.methods != WIRE_NO_PROOF)
		proof_to_hex(text, &c->key);
	return text;
}

char *connection_server_text(const struct connection *c,
			     char text[SOCK_TEXT_MAX])
{
	return sock_addr_text(c->link.addr.len ? &c->link.addr : &c->addr,
			      text);
}

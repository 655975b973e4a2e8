/* connection.c: from the endpoint to a connection that a server has greeted. */
#include "launcher/membership/connection.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/membership/connection_internal.h"

enum {
	BACKOFF_MAX_MS = 1000,
	AGAIN_MAX_MS = 250, /* backoff, where a server was lost */
	CHECKED_MS = 15000, /* the server's munge, which tries for 10 s */
	CONNECT_MS = 1500,  /* of GREETING_MS, where another server may come */
	UNRESOLVED_MS = 10000, /* tasks of one srun begin together */
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
	c->backoff_ms *= 2;
	if (c->backoff_ms > max_ms)
		c->backoff_ms = max_ms;
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

/* The endpoint is not the user's: the launcher names the first node. */
static int connection_is_launchers(const struct rdzv_options *o)
{
	return o->nports || (o->env->first_host[0] &&
			     !strcmp(o->endpoint.host, o->env->first_host));
}

/* The endpoint's addresses; blocks on DNS. Other nodes may be started before
 * the first one's name is known. Slurm's are named, and it knows addresses. */
static int connection_resolve(struct connection *c, struct err *e)
{
	const struct rdzv_options *o = c->options;
	struct endpoint here = {"127.0.0.1", 0};
	int is_ours = connection_is_launchers(o);
	int waits = o->max_nodes > 1 && !o->nports && !o->private_endpoint &&
		    !(is_ours && o->is_host == 1);
	struct name_wait w = {.timeout_s = waits ? o->timeout_s : 0};
	int rc, is_guess = 0;

	if (o->etcd.members)
		return listen_addrs_choose_candidate(o, &c->addr, e);
	rc = name_wait_resolve(&w, o->private_endpoint ? &here : &o->endpoint,
			       c->addrs, CONNECTION_ADDRS_MAX, e);
	c->ended_by = w.signal;
	if (rc >= 0 || !is_ours || w.signal)
		return rc;
	rc = launch_env_resolve(o->env, &o->endpoint,
				o->is_host == 1, c->addrs,
				CONNECTION_ADDRS_MAX, &is_guess, e);
	c->is_nameless = rc > 0;
	if (is_guess) {
		c->unresolved = *e;
		c->unresolved_until_ms = clock_ms() + UNRESOLVED_MS;
	}
	return rc;
}

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

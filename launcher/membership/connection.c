/* connection.c: from the endpoint to a connection that was greeted. */
#include "launcher/membership/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "launcher/config/step_address.h"
#include "launcher/membership/connection_internal.h"
#include "launcher/membership/listen_addrs.h"

enum {
	BACKOFF_MIN_MS = 5,
	BACKOFF_QUICK_MS = 50,
	BACKOFF_MAX_MS = 1000,
	GREETING_MS = 5000,
	CHECKED_MS = 15000,    /* the server's munge, which tries for 10 s */
	CONNECT_MS = 1500,     /* of that, where another server may come */
	NO_ETCD_MS = 8000,     /* and each answer of that kind takes 2 s */
	HELD_MS = 1000,	       /* who answers later than that has waited itself;
				* sooner: etcd has refused us by name */
	UNRESOLVED_MS = 10000, /* tasks of one srun begin together */
	AGAIN_MAX_MS = 250,    /* backoff, where a server was lost */
	MUTE_MS = 7000,	       /* a server that is going may take 5 s for it */
	REFUSED_MS = 10000,    /* the right one of several may still begin */
	HAND_OVER_MS = 1000,   /* a server that makes way for another closes */
};

static void attempt(struct connection *c);
static void call_later(struct connection *c);

static void give_up(struct connection *c, const struct err *why)
{
	if (c->phase == CONNECTION_OVER)
		return;
	connection_hang_up(c);
	c->events->on_lost(c, why);
}

/* The next place to look for the server: 1 where all have been tried. */
static int next_place(struct connection *c)
{
	if (++c->next_addr < c->naddrs)
		return 0;
	c->next_addr = 0;
	if (++c->next_port < c->config->nports)
		return 0;
	c->next_port = 0;
	return 1;
}

static int nobody_answers(int code)
{
	return code == -ETIMEDOUT || code == -EHOSTUNREACH ||
	       code == -ENETUNREACH;
}

static int nobody_listens(int code)
{
	return code == -ECONNREFUSED || nobody_answers(code);
}

/* Nodes that were started together: the host is some milliseconds behind, and
 * all of them would try all its ports. */
static int is_early(const struct connection *c)
{
	return c->backoff_ms < BACKOFF_QUICK_MS && nobody_listens(c->last.code);
}

static void on_closed(struct async_client *l)
{
	struct connection *c = l->owner;

	c->link_open = 0;
	if (c->phase != CONNECTION_OUT)
		return;
	if (c->refused == 1)
		attempt(c);
	else if (c->greeted || c->hosts || c->is_candidate || is_early(c) ||
		 next_place(c) || !c->config->nports)
		call_later(c);
	else
		attempt(c);
}

/* Connections are taken, but nothing comes. */
static int is_mute(struct connection *c, const struct err *why)
{
	uint64_t now = clock_ms();

	if (nobody_listens(why->code)) {
		c->mute_since_ms = 0;
		return 0;
	}
	if (!c->mute_since_ms)
		c->mute_since_ms = now;
	return now - c->mute_since_ms > MUTE_MS;
}

static void complain_mute(struct connection *c, const char *what)
{
	char at[SOCK_TEXT_MAX];
	struct err e = ERR_INIT;

	err_set(&e, ERR_PROTOCOL,
		"rendezvous server %s: what listens there %s, so it is no "
		"ddprdzv that works; choose another port with --rdzv-endpoint "
		"HOST:PORT",
		sock_addr_text(&c->addr, at), what);
	give_up(c, &e);
}

/* The server that we knew: 1: it is looked for. */
static int look_again(struct connection *c, const struct err *why)
{
	int hopeless = c->candidate_error.code != 0;

	if (c->phase == CONNECTION_IN || c->renews) {
		c->renews = 0;
		c->backoff_ms = BACKOFF_MIN_MS;
		c->lost_ms = clock_ms();
		c->lost_own = connection_is_own_candidate(c);
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

/* The one that we asked knows of no server: it has waited for one, or cannot
 * know. Who is here for the first time may have a word of etcd's wrong. */
static int no_server(struct connection *c, const struct err *why)
{
	struct err e = *why;
	uint64_t now = clock_ms();
	int held = now - c->called_ms > HELD_MS;

	if (why->code != ERR_NOT_YET && why->code != ERR_NO_ETCD)
		return 0;
	if (!c->greeted && why->code == ERR_NO_ETCD &&
	    (!held || now - c->began_ms > NO_ETCD_MS)) {
		give_up(c, &e);
		return 1;
	}
	if (held)
		c->backoff_ms = BACKOFF_MIN_MS;
	connection_retry(c, why);
	return 1;
}

static int is_refusal(int code)
{
	return code == ERR_PROOF || code == ERR_REFUSED;
}

/* Another user's server may have a port that is one of ours, and ours be the
 * next; or the secret is wrong. */
static int are_all_refused(struct connection *c, const struct err *why)
{
	uint64_t now = clock_ms();

	if (!is_refusal(why->code))
		return 0;
	if (!c->refused_since_ms)
		c->refused_since_ms = now;
	return now - c->refused_since_ms > REFUSED_MS;
}

/* It closed on our proof, as one that dies does, too: once more, at once. */
static void refused(struct connection *c, const struct err *why)
{
	struct err e = *why;

	if (c->refused++ == 0 ||
	    (c->is_candidate &&
	     clock_ms() - c->refused_since_ms < HAND_OVER_MS)) {
		if (c->refused == 1)
			c->refused_since_ms = clock_ms();
		connection_retry(c, why);
		return;
	}
	e.code = ERR_PROOF;
	give_up(c, &e);
}

/* What is not ours may have one of several ports; but where the server of this
 * very job refuses us, by its greeting, no other will do. */
static int may_be_elsewhere(const struct connection *c, const struct err *why)
{
	if (!c->config->nports || c->hosts || c->greeted)
		return 0;
	if (is_refusal(why->code))
		return !c->link.hand.ours;
	return c->phase == CONNECTION_CALLING || why->code == ERR_PROTOCOL;
}

static void on_link_lost(struct async_client *l, const struct err *why)
{
	struct connection *c = l->owner;
	struct err e = *why;

	if (c->phase == CONNECTION_OVER)
		return;
	uv_timer_stop(&c->greeting);
	if (no_server(c, why))
		return;
	if (c->renews && nobody_answers(e.code)) {
		connection_retry(c, &e);
		return;
	}
	if (c->greeted && !l->told && e.code != ERR_PROTOCOL &&
	    look_again(c, why))
		return;
	if (may_be_elsewhere(c, why)) {
		if (!are_all_refused(c, why)) {
			connection_retry(c, why);
			return;
		}
		e.code = ERR_PROOF;
		give_up(c, &e);
		return;
	}
	if (c->phase == CONNECTION_IN) {
		if (e.code != ERR_PROTOCOL)
			e.code = ERR_REMOTE;
		give_up(c, &e);
		return;
	}
	if (e.code == ERR_REFUSED) {
		refused(c, &e);
		return;
	}
	if (e.code == ERR_PROTOCOL || e.code == ERR_PROOF) {
		give_up(c, &e);
		return;
	}
	if (is_mute(c, why)) {
		complain_mute(c, "closes each connection without a word");
		return;
	}
	if (connection_host_is_unheard(c, why, &e)) {
		give_up(c, &e);
		return;
	}
	log_debug("no connection yet: %s", why->text);
	c->last = *why;
	c->phase = CONNECTION_OUT;
	async_client_close(l);
}

static void on_link_open(struct async_client *l)
{
	struct connection *c = l->owner;

	c->phase = CONNECTION_IN;
	c->greeted = 1;
	c->renews = 0;
	c->key = l->hand.key;
	c->refused = 0;
	c->refused_since_ms = 0;
	c->last = c->unresolved = (struct err)ERR_INIT;
	c->mute_since_ms = 0;
	uv_timer_stop(&c->greeting);
	if (c->is_candidate)
		server_supervisor_learn_key(&c->supervisor, &c->key);
	c->events->on_greeted(c);
}

static void on_link_frame(struct async_client *l, const struct wire_frame *f)
{
	struct connection *c = l->owner;
	struct wire_error m;
	struct err e = ERR_INIT;

	/* another job's server, at a port of ours */
	if (c->config->nports && f->type == WIRE_HELLO &&
	    f->kind == WIRE_ERROR_REPLY && wire_get_error(f, &m, NULL) == 0 &&
	    m.code == ERR_REFUSED) {
		err_set(&e, m.code, "%.*s", SLICE_FMT(m.text));
		connection_retry(c, &e);
		return;
	}
	c->events->on_frame(c, f);
}

static const struct async_client_events link_events = {
	.on_open = on_link_open,
	.on_frame = on_link_frame,
	.on_lost = on_link_lost,
	.on_closed = on_closed,
};

static void on_retry(uv_timer_t *t)
{
	attempt(t->data);
}

static void call_later(struct connection *c)
{
	if (c->unresolved.code && clock_ms() > c->unresolved_until_ms) {
		give_up(c, &c->unresolved);
		return;
	}
	if (c->stopped)
		return;
	uv_timer_start(&c->retry, on_retry, c->backoff_ms, 0);
	c->backoff_ms *= 2;
	if (c->backoff_ms > (c->greeted ? AGAIN_MAX_MS : BACKOFF_MAX_MS))
		c->backoff_ms = c->greeted ? AGAIN_MAX_MS : BACKOFF_MAX_MS;
}

/* Connected, but no greeting; or the connection is still being made. */
static void on_silence(uv_timer_t *t)
{
	struct connection *c = t->data;
	char at[SOCK_TEXT_MAX];

	if (async_client_munge_is_late(&c->link, NULL) ||
	    (async_client_is_checked(&c->link) &&
	     clock_ms() - c->called_ms < CHECKED_MS)) {
		uv_timer_start(t, on_silence, GREETING_MS, 0);
		return;
	}
	connection_host_check_stopped(c);
	if (!c->link.speaks) {
		uv_timer_start(t, on_silence,
			       c->is_candidate ? CONNECT_MS : GREETING_MS, 0);
		async_client_speak(&c->link);
		return;
	}
	/* it may be on its way to another than the one that we called */
	if (c->is_candidate && async_client_is_connected(&c->link) &&
	    clock_ms() - c->called_ms < GREETING_MS) {
		uv_timer_start(&c->greeting, on_silence,
			       GREETING_MS - CONNECT_MS, 0);
		return;
	}
	if (!c->config->nports && !c->greeted && !c->is_candidate &&
	    async_client_is_connected(&c->link)) {
		complain_mute(c, "is silent for 5 s");
		return;
	}
	err_set(&c->last, -ETIMEDOUT, "no answer from %s",
		c->is_candidate ? connection_server_text(c, at) : c->where);
	c->phase = CONNECTION_OUT;
	async_client_close(&c->link);
}

static void call_server(struct connection *c)
{
	const struct wire_hello hello = {
		.role = WIRE_AGENT,
		.job = SLICE_STR(c->config->job),
		.host = SLICE_STR(c->host),
		.session = c->session,
	};
	struct err e = ERR_INIT;
	int rc = async_client_start(&c->link, c->loop, &c->addr, &hello,
				    &c->auth, &link_events, &e);

	if (c->refused)
		c->refused = 2; /* that was the second */

	if (rc < 0) {
		c->last = e;
		next_place(c);
		call_later(c);
		return;
	}
	c->link.owner = c;
	c->link_open = 1;
	c->phase = CONNECTION_CALLING;
	c->called_ms = clock_ms();
	uv_timer_start(&c->greeting, on_silence, LINK_PATIENCE_MS, 0);
	c->events->on_calling(c);
}

/* Hosts the server if the endpoint is ours and free, then connects. */
static void attempt(struct connection *c)
{
	struct err e = ERR_INIT;
	int known = c->hosts || c->is_candidate || c->greeted;
	int rc = known ? 0 : connection_host(c, &e);

	if (rc == -EADDRNOTAVAIL && !c->config->etcd.members &&
	    !c->config->endpoint.port) {
		err_set(&e, ERR_USAGE,
			"the port of the rendezvous %s is 0, "
			"which is a free one of that host's: start ddprun "
			"there first, and here with the port that it says",
			c->where);
		give_up(c, &e);
		return;
	}
	if (!known && !c->hosts && rc == -EADDRNOTAVAIL) {
		c->addr = c->addrs[c->next_addr];
		if (c->config->nports)
			sock_addr_set_port(&c->addr,
					   c->config->ports[c->next_port]);
	} else if (!known && !c->hosts && rc < 0) {
		give_up(c, &e);
		return;
	}
	call_server(c);
}

/* ---- from start to end ---- */

/* The endpoint's addresses; blocks on DNS. */
static int resolve(struct connection *c, struct err *e)
{
	const struct config *config = c->config;
	struct endpoint here = {"127.0.0.1", 0};
	int rc, is_guess = 0;

	if (config->etcd.members)
		return listen_addrs_choose_candidate(config, &c->addr, e);
	rc = sock_resolve(config->private_endpoint ? &here : &config->endpoint,
			  c->addrs, CONNECTION_ADDRS_MAX, e);
	if (rc >= 0 || !config->nports)
		return rc;
	rc = step_address_find(config, c->host, c->addrs, CONNECTION_ADDRS_MAX,
			       &is_guess, e);
	c->nameless = rc > 0;
	if (is_guess) {
		c->unresolved = *e;
		c->unresolved_until_ms = clock_ms() + UNRESOLVED_MS;
	}
	return rc;
}

/* A job that nobody else joins has a secret of its own. */
static int choose_auth(struct connection *c, struct err *e)
{
	const struct config *config = c->config;
	int rc;

	if (config->handed.methods) {
		c->auth = config->handed;
		return 0;
	}
	if (config->private_endpoint &&
	    auth_is_free(config->auth_text, config->token_file))
		return auth_random(&c->auth, "this ddprun", e);
	rc = auth_choose(&c->auth, config->auth_text, config->token_file, e);
	if (rc < 0 && config->max_nodes == 1 && !config->etcd.members)
		rc = auth_alone(&c->auth, config->auth_text, config->token_file,
				e);
	if (rc == 0 && c->auth.without_munge)
		log_info("who joins is known by %s", c->auth.from);
	return rc;
}

int connection_init(struct connection *c, uv_loop_t *loop,
		    const struct config *config, const char *host,
		    const struct connection_events *events, struct err *e)
{
	*c = (struct connection){
		.events = events,
		.loop = loop,
		.config = config,
		.host = host,
		.supervisor = SERVER_SUPERVISOR_INIT,
		.backoff_ms = BACKOFF_MIN_MS,
		.unresolved = ERR_INIT,
		.candidate_error = ERR_INIT,
	};
	if (config->etcd.members)
		etcd_place_text(&config->etcd, c->where);
	else
		endpoint_text(&config->endpoint, c->where);
	if (choose_auth(c, e) < 0 ||
	    random_bytes(&c->session, sizeof(c->session), e) < 0)
		return e->code;
	c->naddrs = resolve(c, e);
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
	attempt(c);
}

int connection_on_silence(struct connection *c, const struct err *why)
{
	if (!c->is_candidate)
		return 0;
	uv_timer_stop(&c->greeting);
	return look_again(c, why);
}

static void be_out(struct connection *c, const struct err *why)
{
	c->last = *why;
	c->mute_since_ms = 0;
	c->phase = CONNECTION_OUT;
	uv_timer_stop(&c->greeting);
}

void connection_retry(struct connection *c, const struct err *why)
{
	be_out(c, why);
	async_client_drop(&c->link);
}

void connection_renew(struct connection *c, const struct err *why)
{
	c->renews = 1;
	c->backoff_ms = BACKOFF_MIN_MS;
	be_out(c, why);
	async_client_tear(&c->link);
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

void connection_stop_search(struct connection *c)
{
	c->stopped = 1;
	uv_timer_stop(&c->retry);
	connection_retry(c, &c->last);
}

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

int connection_is_own_candidate(const struct connection *c)
{
	return c->is_candidate && !c->link.moved;
}

int connection_reaped(struct connection *c, pid_t pid, int status)
{
	struct err e = ERR_INIT;
	enum server_end how =
		server_supervisor_reaped(&c->supervisor, pid, status, &e);

	if (how != SERVER_LOST || c->phase == CONNECTION_OVER)
		return how != SERVER_NOT_OURS;
	if (c->phase == CONNECTION_IN && c->is_candidate &&
	    !connection_is_own_candidate(c)) {
		log_warn("%s; this node cannot find another server when the "
			 "job's is lost",
			 e.text);
		c->candidate_error = e;
		return 1;
	}
	if (!c->greeted || !c->events->on_away(c, &e, 1))
		give_up(c, &e);
	else if (c->phase != CONNECTION_OVER)
		connection_stop_search(c);
	return 1;
}

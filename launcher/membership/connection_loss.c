/* connection_loss.c: what follows when an attempt fails or a connection is
 * lost: another attempt, another place, or the end. */
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "launcher/membership/connection_internal.h"

enum {
	NO_ETCD_MS = 8000,   /* each such answer takes 2 s */
	HELD_MS = 1000,	     /* an answer that took longer was held back until
			      * there might be a server; a sooner one: etcd
			      * refused us by name */
	MUTE_MS = 7000,	     /* a server that ends may take 5 s for it */
	REFUSED_MS = 10000,  /* the right one of several may still begin */
	HAND_OVER_MS = 1000, /* a server that makes way for another closes */
};

static int connection_is_unanswered(int code)
{
	return code == -ETIMEDOUT || code == -EHOSTUNREACH ||
	       code == -ENETUNREACH;
}

int connection_is_unreachable(int code)
{
	return code == -ECONNREFUSED || connection_is_unanswered(code);
}

/* ---- what listens there ---- */

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

void connection_fail_mute(struct connection *c, const char *what)
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

/* ---- refused ---- */

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

/* ---- lost ---- */

int connection_search_again(struct connection *c, const struct err *why)
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

void connection_on_link_lost(struct async_client *l, const struct err *why)
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

/* place.c: candidate, then the journal, then the server; and back to candidate
 * while nobody was told anything yet. A server that loses its place ends. */
#include "rendezvous/server/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/journal/candidate.h"
#include "rendezvous/journal/journal_etcd.h"
#include "rendezvous/journal/remains.h"
#include "rendezvous/server/hosted.h"
#include "rendezvous/server/seal.h"
#include "rendezvous/server/standby.h"

enum {
	ASK_MS = 1500, /* for etcd to answer, while nobody depends on it */
	BACKOFF_MIN_MS = 100,
	BACKOFF_MAX_MS = 1000,
};

enum state {
	AWAY,    /* etcd does not answer, or refuses: it is asked again soon */
	ASKING,  /* nobody is the server yet */
	OTHER,   /* somebody else is */
	LOADING, /* we are, and read the journal */
	SERVING,
	LOST,    /* we were, and find out whether it is this host's fault */
	LEAVING, /* the last is being kept, or removed; then the place goes */
};

static const char *const state_names[] = {
	"AWAY", "ASKING", "OTHER", "LOADING", "SERVING", "LOST", "LEAVING",
};

struct place {
	struct server *server;
	struct place_options o;
	struct etcd *etcd;
	struct candidate *candidate;   /* NULL: while AWAY */
	struct journal_etcd *journal;
	enum state state;
	char other[SOCK_TEXT_MAX];     /* "": nobody that we know of */
	uint64_t other_until;          /* while AWAY it may be still */
	struct err why;                /* it is not known */
	int refused;                   /* that will not pass by itself */
	uv_timer_t timer;
	uint64_t backoff_ms;
	uint64_t leases_lost; /* the server counted, as etcd answered last */
	uint64_t lost_at;              /* since when nobody was heard; or 0 */
	int over; /* nothing is to be left */
	void (*left)(struct server *s); /* not NULL: it leaves */
	struct remains *remains; /* and sees to what another may have left */
};

static void begin(struct place *p);

static void go(struct place *p, enum state s)
{
	log_debug("place of job '%s': %s -> %s", p->o.job,
		  state_names[p->state], state_names[s]);
	p->state = s;
}

/* ---- what is known ---- */

static int other_is_known(const struct place *p)
{
	return p->other[0] &&
	       (p->state == OTHER ||
		(p->state == AWAY &&
		 uv_now(p->server->loop) < p->other_until));
}

int place_check(const struct place *p, struct err *e)
{
	if (p->state == SERVING)
		return 0;
	if (other_is_known(p))
		return err_set(e, ERR_MOVED, "%s", p->other);
	return err_set(e, p->why.code, "%s", p->why.text);
}

int place_is_known(const struct place *p)
{
	return p->state == SERVING || p->refused || other_is_known(p);
}

int place_is_sure(const struct place *p)
{
	return p->state == SERVING && candidate_is_sure(p->candidate);
}

/* ---- the server ---- */

/* Of several nodes, also of those that were lost since etcd answered last, at
 * most our own has been heard of for a third of its lease (*longest: that
 * long), or since then: it may be this host that is cut off, and others go on
 * with the job. */
static int is_cut_off(const struct place *p, uint64_t since, uint64_t *longest)
{
	const struct server *s = p->server;
	uint64_t now = uv_now(s->loop), recent;
	uint32_t nodes = 0, heard = 0;

	*longest = 0;
	for (const struct member *m = s->members; m; m = m->next) {
		if (!m->node)
			continue;
		recent = m->lease_ms / 3;
		*longest = recent > *longest ? recent : *longest;
		nodes++;
		heard += m->conn.heard > since &&
			 now - m->conn.heard <= recent;
	}
	if (nodes < 2)
		*longest = 0;
	return heard < 2 &&
	       (nodes > 1 || s->counts.leases_lost > p->leases_lost);
}

static void end(struct place *p)
{
	uint64_t longest;
	int cut_off = is_cut_off(p, p->lost_at, &longest);

	log_error("job '%s' is not served at %s any more: %s", p->o.job,
		  p->o.address, p->why.text);
	exit(cut_off ? PLACE_EXIT_CUT_OFF : PLACE_EXIT_LOST);
}

static void on_time(uv_timer_t *t)
{
	end(t->data);
}

void place_fail(struct place *p, const struct err *why)
{
	uint64_t longest;

	if (p->state == LOST)
		return;
	p->why = *why;
	p->why.code = ERR_NO_ETCD;
	go(p, LOST);
	/* A cable that was pulled since the last pings is not seen yet where
	 * the place is lost that soon. Nothing is said meanwhile. */
	if (is_cut_off(p, 0, &longest) ||
	    longest < p->o.ttl_s * 1000u * 2 / 3)
		end(p);
	p->lost_at = uv_now(p->server->loop);
	uv_timer_start(&p->timer, on_time, longest, 0);
}

static void serve(struct place *p)
{
	struct server *s = p->server;

	go(p, SERVING);
	if (!s->has_parent)
		log_info("serving job '%s' at %s", p->o.job, p->o.address);
	history_serve(&s->history);
	standby_answer(s);
	history_kept(&s->history);
}

/* Nobody is in any job yet: as if nothing had been read. */
static void close_journal(struct place *p)
{
	history_forget_all(&p->server->history);
	journal_etcd_close(p->journal);
	p->journal = NULL;
}

static void on_again(uv_timer_t *t)
{
	begin(t->data);
}

static void ask_later(struct place *p)
{
	uv_timer_start(&p->timer, on_again, p->backoff_ms, 0);
	p->backoff_ms = p->backoff_ms * 2 > BACKOFF_MAX_MS ?
			BACKOFF_MAX_MS : p->backoff_ms * 2;
}

static void be_away(struct place *p, const struct err *why)
{
	struct server *s = p->server;

	/* ddprun says it itself, when it has waited long enough */
	if (strcmp(p->why.text, why->text) != 0 && !s->has_parent)
		log_warn("job '%s': %s", p->o.job, why->text);
	if (p->state == OTHER)
		p->other_until = uv_now(s->loop) + p->o.ttl_s * 1000u;
	close_journal(p);
	go(p, AWAY);
	p->refused = why->code == ERR_REFUSED || why->code == ERR_DATA ||
		     why->code == ERR_PROTOCOL;
	p->why = *why;
	p->why.code = ERR_NO_ETCD;
	if (p->refused)
		standby_answer(s);
	conn_flush_all(&s->pool);
}

static void fall_back(struct place *p, const struct err *why)
{
	be_away(p, why);
	if (p->candidate)
		candidate_close(p->candidate);
	p->candidate = NULL;
	ask_later(p);
}

static void on_given(void *owner)
{
	struct place *p = owner;

	candidate_close(p->candidate);
	p->candidate = NULL;
	ask_later(p);
}

/* What is wrong is wrong here, and another may be the server. */
static void give_way(struct place *p, const struct err *why)
{
	be_away(p, why);
	candidate_resign(p->candidate, on_given);
}

/* ---- leaving ---- */

static void gone(void *owner)
{
	struct place *p = owner;
	struct server *s = p->server;
	void (*left)(struct server *s) = p->left;

	place_close(p);
	left(s);
}

static void resign(struct place *p)
{
	go(p, LEAVING);
	uv_timer_stop(&p->timer);
	if (p->candidate)
		candidate_resign(p->candidate, gone);
	else
		gone(p);
}

/* While the job's server has to remove it this one stays what it is, and so is
 * its next server if that one dies. */
static void on_remains(void *owner, enum remains_state how)
{
	struct place *p = owner;

	if (how != REMAINS_THERE && p->state != LEAVING)
		resign(p);
}

static void linger(struct place *p)
{
	/* an etcd that says nothing takes the keys away by itself, some day */
	if (p->state == AWAY ||
	    remains_watch(&p->remains, p->etcd, p->server->loop, p->o.job,
			  p->o.ttl_s, on_remains, p, NULL) < 0)
		resign(p);
}

/* It has the place, and the job's journal is there. */
static void clear(struct place *p)
{
	go(p, LEAVING);
	p->over = history_is_over_in_etcd(&p->server->history, p->journal);
	if (p->over)
		journal_etcd_remove(p->journal);
	else
		candidate_resign(p->candidate, gone);
}

static void on_settled(struct place *p)
{
	if (p->over || !history_settle(&p->server->history))
		candidate_resign(p->candidate, gone);
}

void place_leave(struct place *p, int over, void (*left)(struct server *s))
{
	if (p->left)
		return;
	if (p->state == LOST)
		end(p);
	p->left = left;
	if (p->state != SERVING) {
		linger(p);
		return;
	}
	go(p, LEAVING);
	p->over = over;
	uv_timer_stop(&p->timer);
	if (over)
		journal_etcd_remove(p->journal);
	else
		on_settled(p);
}

/* ---- what etcd says ---- */

static void on_lost(void *owner, const struct err *why)
{
	struct place *p = owner;

	if (p->state == SERVING || p->state == LOST) {
		place_fail(p, why);
	} else if (p->state == LEAVING) {
		log_warn("job '%s' may have left something in etcd: %s",
			 p->o.job, why->text);
		gone(p);
	} else {
		fall_back(p, why);
	}
}

static void on_loaded(void *owner)
{
	struct place *p = owner;
	struct err e = ERR_INIT, why = ERR_INIT;
	int rc;

	if (p->left) {
		clear(p);
		return;
	}
	rc = history_start_in_etcd(&p->server->history, p->journal, &e);

	if (rc < 0) {
		err_set(&why, rc, "etcd (%s): %.600s: remove all below "
			"/ddprun/%.200s/, or choose another --rdzv-id",
			etcd_where(p->etcd), e.text, p->o.job);
		fall_back(p, &why);
	} else if (seal_agree(p->server, &e) < 0) {
		give_way(p, &e);
	} else if (rc == 0) {
		serve(p);
	}
}

static void on_kept(void *owner)
{
	struct place *p = owner;

	if (p->state == LOADING)
		serve(p);
	else if (p->state == LEAVING)
		on_settled(p);
	else
		history_kept(&p->server->history);
}

static const struct journal_etcd_events journal_events = {
	.on_loaded = on_loaded, .on_kept = on_kept, .on_lost = on_lost,
};

static void on_other(void *owner, const char *address)
{
	struct place *p = owner;

	go(p, OTHER);
	p->refused = 0;
	snprintf(p->other, sizeof(p->other), "%s", address);
	p->backoff_ms = BACKOFF_MIN_MS;
	if (!p->server->has_parent)
		log_info("standing by: the server of job '%s' is at %s",
			 p->o.job, p->other);
	standby_answer(p->server);
	conn_flush_all(&p->server->pool);
}

static void on_none(void *owner)
{
	struct place *p = owner;

	go(p, ASKING);
	p->refused = 0;
	err_set(&p->why, ERR_NOT_YET, p->other[0] ?
		"the server of job '%s' at %s is gone: etcd (%s) has not "
		"another yet" :
		"job '%s' has no server%s yet: etcd (%s) is choosing one",
		p->o.job, p->other, etcd_where(p->etcd));
	p->other[0] = '\0';
}

static void on_won(void *owner, int64_t revision)
{
	struct place *p = owner;
	const struct journal_etcd_options o = {
		.job = p->o.job, .guard = candidate_key(p->candidate),
		.guard_revision = revision, .within_ms = p->o.ttl_s * 1000u,
		.lease = p->o.lease + 1, .keep_s = p->o.keep_s,
	};
	struct err e = ERR_INIT;

	go(p, LOADING);
	p->refused = 0;
	p->other[0] = '\0';
	err_set(&p->why, ERR_NOT_YET, "the server of job '%s', %s, still reads "
		"what etcd (%s) has of it", p->o.job, p->o.address,
		etcd_where(p->etcd));
	if (journal_etcd_open(&p->journal, p->etcd, p->server->loop, &o,
			      &journal_events, p, &e) < 0)
		fall_back(p, &e);
}

static void on_longer(void *owner)
{
	struct place *p = owner;

	p->leases_lost = p->server->counts.leases_lost;
	if (p->state == SERVING)
		history_kept(&p->server->history);
}

static const struct candidate_events candidate_events = {
	.on_other = on_other, .on_none = on_none, .on_won = on_won,
	.on_longer = on_longer, .on_lost = on_lost,
};

/* ---- begin and end ---- */

static void begin(struct place *p)
{
	const struct candidate_options o = {
		.job = p->o.job, .address = p->o.address, .lease = p->o.lease,
		.ttl_s = p->o.ttl_s, .within_ms = ASK_MS,
	};
	struct err e = ERR_INIT;

	if (candidate_start(&p->candidate, p->etcd, p->server->loop, &o,
			    &candidate_events, p, &e) < 0)
		fall_back(p, &e);
}

static void on_closed(uv_handle_t *t)
{
	free(t->data);
}

int place_open(struct server *s, const struct place_options *o, struct err *e)
{
	struct place *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	rc = etcd_new(&p->etcd, s->loop, &o->etcd, e);
	if (rc < 0) {
		free(p);
		return rc;
	}
	p->server = s;
	p->o = *o;
	p->state = AWAY;
	p->backoff_ms = BACKOFF_MIN_MS;
	err_set(&p->why, ERR_NO_ETCD, "etcd (%s) has not answered yet",
		etcd_where(p->etcd));
	uv_timer_init(s->loop, &p->timer);
	p->timer.data = p;
	s->place = p;
	begin(p);
	return 0;
}

void place_close(struct place *p)
{
	if (!p)
		return;
	p->server->place = NULL;
	history_close(&p->server->history);
	remains_close(p->remains);
	journal_etcd_close(p->journal);
	if (p->candidate)
		candidate_close(p->candidate);
	etcd_close(p->etcd);
	uv_close((uv_handle_t *)&p->timer, on_closed);
}

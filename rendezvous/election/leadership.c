/* leadership.c: runs the election, loads the journal, then serves. Returns to
 * the election only while no client has got a reply. A leader that loses its
 * place ends the process. */
#include "rendezvous/election/leadership.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/sock.h"
#include "rendezvous/election/election.h"
#include "rendezvous/journal/journal_etcd.h"

enum {
	ASK_MS = 1500, /* etcd's time to reply while no client depends on it */
	BACKOFF_MIN_MS = 100,
	BACKOFF_MAX_MS = 1000,
};

enum state {
	AWAY,	 /* etcd does not reply, or refuses; retried soon */
	ASKING,	 /* no process leads yet */
	OTHER,	 /* another process leads */
	LOADING, /* we have won, and are reading the journal */
	SERVING,
	LOST,	 /* we led; finding out whether this host is cut off */
	LEAVING, /* the last records are being written, or removed */
};

static const char *const state_names[] = {
	"AWAY", "ASKING", "OTHER", "LOADING", "SERVING", "LOST", "LEAVING",
};

struct leadership {
	uv_loop_t *loop;
	const struct leadership_events *events;
	void *owner;
	struct leadership_options o;
	struct etcd *etcd;
	struct election *election; /* NULL: while AWAY */
	struct journal_etcd *journal;
	enum state state;
	char other[SOCK_TEXT_MAX]; /* the leader's address; "": unknown */
	uint64_t other_until;	   /* while AWAY: it may lead until then */
	struct err why;		   /* why there is no leader to name */
	int is_refused;		   /* by etcd: a retry does not help */
	uv_timer_t timer;
	uint64_t backoff_ms;
	uint64_t leases_lost; /* the count when etcd last replied */
	uint64_t lost_at;     /* loop time; 0: not lost */
	int over;	      /* leaving: the job is removed from etcd */
	void (*left)(void *owner);    /* not NULL: we are leaving */
	struct etcd_cleanup *cleanup; /* leaving, as a process that does not
				       * lead */
};

static void leadership_stand(struct leadership *l);

static void leadership_set_state(struct leadership *l, enum state s)
{
	log_debug("leadership of job '%s': %s -> %s", l->o.job,
		  state_names[l->state], state_names[s]);
	l->state = s;
}

/* ---- what is known ---- */

static int leadership_knows_other(const struct leadership *l)
{
	return l->other[0] &&
	       (l->state == OTHER ||
		(l->state == AWAY && uv_now(l->loop) < l->other_until));
}

int leadership_check(const struct leadership *l, struct err *e)
{
	if (l->state == SERVING)
		return 0;
	if (leadership_knows_other(l))
		return err_set(e, ERR_MOVED, "%s", l->other);
	return err_set(e, l->why.code, "%s", l->why.text);
}

int leadership_is_known(const struct leadership *l)
{
	return l->state == SERVING || l->is_refused ||
	       leadership_knows_other(l);
}

int leadership_is_sure(const struct leadership *l)
{
	return l->state == SERVING && election_is_sure(l->election);
}

/* ---- the server ---- */

/* Whether this host may be cut off while the job continues elsewhere: of two or
 * more nodes, including those lost since etcd last replied, at most our own was
 * heard from since then. *longest is the time within which all nodes should be
 * heard. */
static int leadership_is_cut_off(const struct leadership *l, uint64_t since,
				 uint64_t *longest)
{
	struct leadership_view v = {0};

	l->events->query(l->owner, since, &v);
	*longest = v.nodes < 2 ? 0 : v.longest_ms;
	return v.heard < 2 && (v.nodes > 1 || v.leases_lost > l->leases_lost);
}

static void leadership_exit(struct leadership *l)
{
	uint64_t longest;
	int cut_off = leadership_is_cut_off(l, l->lost_at, &longest);

	log_error("job '%s' is no longer served at %s: %s", l->o.job,
		  l->o.address, l->why.text);
	exit(cut_off ? LEADERSHIP_EXIT_CUT_OFF : LEADERSHIP_EXIT_LOST);
}

static void leadership_on_timer(uv_timer_t *t)
{
	leadership_exit(t->data);
}

void leadership_fail(struct leadership *l, const struct err *why)
{
	uint64_t longest;

	if (l->state == LOST)
		return;
	l->why = *why;
	l->why.code = ERR_NO_ETCD;
	leadership_set_state(l, LOST);
	/* Exit at once if this host is known to be cut off, or if all pings
	 * were due since the lease's last renewal. Else wait for them, because
	 * the cable may just have been pulled. No output leaves meanwhile. */
	if (leadership_is_cut_off(l, 0, &longest) ||
	    longest < l->o.ttl_s * 1000u * 2 / 3)
		leadership_exit(l);
	l->lost_at = uv_now(l->loop);
	uv_timer_start(&l->timer, leadership_on_timer, longest, 0);
}

static void leadership_serve(struct leadership *l)
{
	leadership_set_state(l, SERVING);
	if (!l->o.is_quiet)
		log_info("serving job '%s' at %s", l->o.job, l->o.address);
	l->events->serve(l->owner);
}

/* No client is in a job yet, so the replayed state can be dropped. */
static void leadership_close_journal(struct leadership *l)
{
	l->events->forget(l->owner);
	journal_etcd_close(l->journal);
	l->journal = NULL;
}

static void leadership_on_retry(uv_timer_t *t)
{
	leadership_stand(t->data);
}

static void leadership_retry_later(struct leadership *l)
{
	uv_timer_start(&l->timer, leadership_on_retry, l->backoff_ms, 0);
	l->backoff_ms = l->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
							   : l->backoff_ms * 2;
}

static void leadership_set_away(struct leadership *l, const struct err *why)
{
	/* ddprun itself reports a long wait */
	if (strcmp(l->why.text, why->text) != 0 && !l->o.is_quiet)
		log_warn("job '%s': %s", l->o.job, why->text);
	if (l->state == OTHER)
		l->other_until = uv_now(l->loop) + l->o.ttl_s * 1000u;
	leadership_close_journal(l);
	leadership_set_state(l, AWAY);
	l->is_refused = why->code == ERR_REFUSED || why->code == ERR_DATA ||
			why->code == ERR_PROTOCOL;
	l->why = *why;
	l->why.code = ERR_NO_ETCD;
	if (l->is_refused)
		l->events->on_known(l->owner);
}

static void leadership_fall_back(struct leadership *l, const struct err *why)
{
	leadership_set_away(l, why);
	if (l->election)
		election_close(l->election);
	l->election = NULL;
	leadership_retry_later(l);
}

static void leadership_on_resigned(void *owner)
{
	struct leadership *l = owner;

	election_close(l->election);
	l->election = NULL;
	leadership_retry_later(l);
}

/* The fault is on this host, and another process may be able to lead. */
static void leadership_yield(struct leadership *l, const struct err *why)
{
	leadership_set_away(l, why);
	election_resign(l->election, leadership_on_resigned);
}

/* ---- leaving ---- */

static void leadership_on_left(void *leadership)
{
	struct leadership *l = leadership;
	void (*left)(void *owner) = l->left;
	void *owner = l->owner;

	leadership_close(l);
	left(owner);
}

static void leadership_resign(struct leadership *l)
{
	leadership_set_state(l, LEAVING);
	uv_timer_stop(&l->timer);
	if (l->election)
		election_resign(l->election, leadership_on_left);
	else
		leadership_on_left(l);
}

/* While the job's leader still has to remove the job, this process stays a
 * candidate, in case the leader dies. */
static void leadership_on_cleanup(void *owner, enum etcd_cleanup_state how)
{
	struct leadership *l = owner;

	if (how != ETCD_CLEANUP_THERE && l->state != LEAVING)
		leadership_resign(l);
}

static void leadership_wait_cleanup(struct leadership *l)
{
	/* without etcd's replies, the keys end with their lease */
	if (l->state == AWAY ||
	    etcd_cleanup_watch(&l->cleanup, l->etcd, l->loop, l->o.job,
			       l->o.ttl_s, leadership_on_cleanup, l, NULL) < 0)
		leadership_resign(l);
}

/* Won while leaving: removes the job if its journal says that it is over. */
static void leadership_clear(struct leadership *l)
{
	leadership_set_state(l, LEAVING);
	l->over = l->events->is_over(l->owner, l->journal);
	if (l->over)
		journal_etcd_remove(l->journal);
	else
		election_resign(l->election, leadership_on_left);
}

static void leadership_settle(struct leadership *l)
{
	if (l->over || !l->events->settle(l->owner))
		election_resign(l->election, leadership_on_left);
}

void leadership_leave(struct leadership *l, int over, void (*left)(void *owner))
{
	if (l->left)
		return;
	if (l->state == LOST)
		leadership_exit(l);
	l->left = left;
	if (l->state != SERVING) {
		leadership_wait_cleanup(l);
		return;
	}
	leadership_set_state(l, LEAVING);
	l->over = over;
	uv_timer_stop(&l->timer);
	if (over)
		journal_etcd_remove(l->journal);
	else
		leadership_settle(l);
}

/* ---- events from etcd ---- */

static void leadership_on_lost(void *owner, const struct err *why)
{
	struct leadership *l = owner;

	if (l->state == SERVING || l->state == LOST) {
		leadership_fail(l, why);
	} else if (l->state == LEAVING) {
		log_warn("job '%s' may have left something in etcd: %s",
			 l->o.job, why->text);
		leadership_on_left(l);
	} else {
		leadership_fall_back(l, why);
	}
}

static void leadership_on_loaded(void *owner)
{
	struct leadership *l = owner;
	struct err e = ERR_INIT, why = ERR_INIT;
	int rc;

	if (l->left) {
		leadership_clear(l);
		return;
	}
	rc = l->events->load(l->owner, l->journal, &e);

	if (rc < 0) {
		err_set(&why, rc,
			"etcd (%s): %.600s: remove all keys below "
			"/ddprun/%.200s/, or choose another --rdzv-id",
			etcd_where(l->etcd), e.text, l->o.job);
		leadership_fall_back(l, &why);
	} else if (l->events->agree_key(l->owner, &e) < 0) {
		leadership_yield(l, &e);
	} else if (rc == 0) {
		leadership_serve(l);
	}
}

static void leadership_on_kept(void *owner)
{
	struct leadership *l = owner;

	if (l->state == LOADING)
		leadership_serve(l);
	else if (l->state == LEAVING)
		leadership_settle(l);
	else
		l->events->on_kept(l->owner);
}

static const struct journal_etcd_events journal_events = {
	.on_loaded = leadership_on_loaded,
	.on_kept = leadership_on_kept,
	.on_lost = leadership_on_lost,
};

static void leadership_on_other(void *owner, const char *address)
{
	struct leadership *l = owner;

	leadership_set_state(l, OTHER);
	l->is_refused = 0;
	snprintf(l->other, sizeof(l->other), "%s", address);
	l->backoff_ms = BACKOFF_MIN_MS;
	if (!l->o.is_quiet)
		log_info("standing by: the server of job '%s' is at %s",
			 l->o.job, l->other);
	l->events->on_known(l->owner);
}

static void leadership_on_none(void *owner)
{
	struct leadership *l = owner;

	leadership_set_state(l, ASKING);
	l->is_refused = 0;
	err_set(&l->why, ERR_NOT_YET,
		l->other[0] ? "the server of job '%s' at %s is gone: etcd (%s) "
			      "has no other yet"
			    : "job '%s' has no server%s yet: etcd (%s) is "
			      "choosing one",
		l->o.job, l->other, etcd_where(l->etcd));
	l->other[0] = '\0';
}

static void leadership_on_won(void *owner, int64_t revision)
{
	struct leadership *l = owner;
	const struct journal_etcd_options o = {
		.job = l->o.job,
		.guard = election_key(l->election),
		.guard_revision = revision,
		.within_ms = l->o.ttl_s * 1000u,
		.lease = l->o.lease + 1,
		.keep_s = l->o.keep_s,
	};
	struct err e = ERR_INIT;

	leadership_set_state(l, LOADING);
	l->is_refused = 0;
	l->other[0] = '\0';
	err_set(&l->why, ERR_NOT_YET,
		"the server of job '%s', %s, is still loading the job from "
		"etcd (%s)",
		l->o.job, l->o.address, etcd_where(l->etcd));
	if (journal_etcd_open(&l->journal, l->etcd, l->loop, &o,
			      &journal_events, l, &e) < 0)
		leadership_fall_back(l, &e);
}

static void leadership_on_renewed(void *owner)
{
	struct leadership *l = owner;

	struct leadership_view v = {0};

	l->events->query(l->owner, 0, &v);
	l->leases_lost = v.leases_lost;
	if (l->state == SERVING)
		l->events->on_kept(l->owner);
}

static const struct election_events election_events = {
	.on_other = leadership_on_other,
	.on_none = leadership_on_none,
	.on_won = leadership_on_won,
	.on_longer = leadership_on_renewed,
	.on_lost = leadership_on_lost,
};

/* ---- begin and end ---- */

static void leadership_stand(struct leadership *l)
{
	const struct election_options o = {
		.job = l->o.job,
		.address = l->o.address,
		.lease = l->o.lease,
		.ttl_s = l->o.ttl_s,
		.within_ms = ASK_MS,
	};
	struct err e = ERR_INIT;

	if (election_start(&l->election, l->etcd, l->loop, &o, &election_events,
			   l, &e) < 0)
		leadership_fall_back(l, &e);
}

static void leadership_on_closed(uv_handle_t *t)
{
	free(t->data);
}

int leadership_open(struct leadership **out, uv_loop_t *loop,
		    const struct leadership_options *o,
		    const struct leadership_events *events, void *owner,
		    struct err *e)
{
	struct leadership *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return err_no_memory(e, "the election of job '%s'", o->job);
	rc = etcd_new(&l->etcd, loop, &o->etcd, e);
	if (rc < 0) {
		free(l);
		return rc;
	}
	l->loop = loop;
	l->events = events;
	l->owner = owner;
	l->o = *o;
	l->state = AWAY;
	l->backoff_ms = BACKOFF_MIN_MS;
	err_set(&l->why, ERR_NO_ETCD, "etcd (%s) has not answered yet",
		etcd_where(l->etcd));
	uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	*out = l;
	leadership_stand(l);
	return 0;
}

void leadership_close(struct leadership *l)
{
	if (!l)
		return;
	l->events->on_close(l->owner);
	etcd_cleanup_close(l->cleanup);
	journal_etcd_close(l->journal);
	if (l->election)
		election_close(l->election);
	etcd_close(l->etcd);
	uv_close((uv_handle_t *)&l->timer, leadership_on_closed);
}

/* stall_report.c: one table for each job, which is emptied when a round begins.
 * It is in no journal: the agents report again soon. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/query/query.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/server.h"
#include "rendezvous/stall/stall.h"

enum {
	PATIENCE_MIN_MS = 100,
	PATIENCE_MAX_MS = 86400000,
	CHECKS = 30, /* in the patience */
	HOLD_MS = 250, /* for the agents whose workers fail as well */
	ASK_MS = 1000, /* for the agents that are asked what their ranks do */
	PEER_MS = 1500, /* for the end of a process that closed its sockets */
};

struct stall_report {
	struct stall stall;
	struct slow slow;
	int has_slowest; /* rank and share, as in struct slow_news */
	uint32_t slowest, slowest_share;
	uint32_t round;
	uint64_t checked_ms;
	size_t bytes; /* charged to the job's account */
};

static const char *stall_report_host(void *arg, uint32_t rank)
{
	const struct hosted_job *h = arg;
	const char *host = job_rank_host(h->job, rank);

	return host ? host : "?";
}

static void stall_report_end_round(struct hosted_job *h)
{
	struct stall_report *r = h->stalls;

	account_sub(h->account, r->bytes);
	r->bytes = 0;
	stall_release(&r->stall);
	r->slow = (struct slow){0};
	r->has_slowest = 0;
}

void stall_report_release(struct hosted_job *h)
{
	if (!h->stalls)
		return;
	stall_report_end_round(h);
	free(h->stalls);
	h->stalls = NULL;
}

/* The running round's table; NULL: out of memory, so nothing is watched. */
static struct stall_report *stall_report_of(struct hosted_job *h,
					    uint32_t patience_ms)
{
	uint32_t world = job_world_size(h->job);

	if (!h->stalls)
		h->stalls = calloc(1, sizeof(*h->stalls));
	if (!h->stalls)
		return NULL;
	if (h->stalls->stall.ranks && h->stalls->round == job_round(h->job))
		return h->stalls;
	stall_report_end_round(h);
	if (patience_ms < PATIENCE_MIN_MS || patience_ms > PATIENCE_MAX_MS)
		patience_ms = STALL_PATIENCE_MS;
	if (stall_init(&h->stalls->stall, world, patience_ms) < 0)
		return NULL;
	h->stalls->stall.host = stall_report_host;
	h->stalls->stall.arg = h;
	h->stalls->round = job_round(h->job);
	h->stalls->bytes = world * sizeof(struct stall_rank);
	account_add(h->account, h->stalls->bytes);
	return h->stalls;
}

/* The report of a round that runs, or NULL. */
static struct stall_report *stall_report_running(struct hosted_job *h)
{
	if (!h || !h->stalls || !h->stalls->stall.ranks ||
	    job_state(h->job) != JOB_RUNNING ||
	    h->stalls->round != job_round(h->job))
		return NULL;
	return h->stalls;
}

/* ---- lines ---- */

/* Every terminal gets a line; the agent of the awaited rank gets the others as
 * well, for --hang-timeout. */
static void stall_report_send(struct hosted_job *h,
			      const struct stall_news *news)
{
	int is_line = news->show || news->is_over;
	const struct wire_stalled m = {
		.round = h->stalls->round,
		.doing = (uint8_t)news->doing,
		.rank = news->rank,
		.stalled_ms = news->is_over ? 0 : news->ms,
		.text = SLICE_STR(is_line ? news->text : ""),
		.why = SLICE_STR(news->why),
	};
	const struct peer *agent = job_rank_owner(h->job, news->rank);
	struct job_node *n = NULL;
	struct peer *to;

	while ((to = hosted_job_next_agent(h, &n)))
		if (is_line || to == agent)
			wire_put_stalled(conn_out(&to->conn), WIRE_STALLED,
					 WIRE_NOTICE, 0, &m);
}

static void stall_report_send_slow(struct hosted_job *h,
				   const struct slow_news *news)
{
	const struct wire_slow m = {
		.round = h->stalls->round,
		.rank = news->rank,
		.over = (uint8_t)news->is_over,
		.share = news->share,
		.text = SLICE_STR(news->text),
	};
	struct job_node *n = NULL;
	struct peer *to;

	while ((to = hosted_job_next_agent(h, &n)))
		wire_put_slow(conn_out(&to->conn), WIRE_SLOW,
			      WIRE_NOTICE, 0, &m);
}

static void stall_report_check(struct hosted_job *h, uint64_t now)
{
	struct stall_report *r = h->stalls;
	struct stall_news news;
	struct slow_news slow;

	if (now - r->checked_ms < r->stall.patience_ms / CHECKS)
		return;
	r->checked_ms = now;
	for (uint32_t i = 0; i < r->stall.world; i++)
		if (job_rank_end(h->job, i))
			stall_set_ended(&r->stall, i);
	stall_check(&r->stall, &news);
	if (news.is_stalled || news.is_over)
		stall_report_send(h, &news);
	slow_check(&r->slow, &r->stall, now, &slow);
	r->has_slowest = slow.has_slowest;
	r->slowest = slow.slowest;
	r->slowest_share = slow.slowest_share;
	if (slow.is_slow || slow.is_over)
		stall_report_send_slow(h, &slow);
}

/* ---- culprit before victim ---- */

/* Applies an EXITED for the rank that is the cause, as if its agent had sent
 * it. early: what is wrong with that rank. */
static void stall_report_blame(struct hosted_job *h,
			       const struct stall_news *news,
			       const struct wire_exited *victim,
			       enum wire_early early)
{
	struct peer *agent = job_rank_owner(h->job, news->rank);
	struct wire_exited x = {
		.round = victim->round,
		.rank = news->rank,
		.local_rank = news->local_rank,
		.pid = news->pid,
		.ran_ms = victim->ran_ms,
		.code = early == WIRE_HANGS ? 0
			: victim->code > 0 ? victim->code : 1,
		.early = (uint8_t)early,
	};
	struct buf why = BUF_INIT(WIRE_NAME_MAX), frame = BUF_INIT(1 << 16);
	struct wire_frame f;
	struct err e = ERR_INIT;
	struct slice reason = victim->why.len ? victim->why : victim->last;
	struct slice line = slice_next_line(&reason);

	if (!agent || !agent->node)
		return;
	buf_printf(&why, "%s\nso rank %u failed", news->why, victim->rank);
	if (early != WIRE_WRONG_DATA) /* else its cause is the same */
		buf_printf(&why, ": %.*s",
			   (int)(line.len < 300 ? line.len : 300), line.data);
	x.why = SLICE(why.data, why.len);
	wire_put_exited(&frame, WIRE_EXITED, WIRE_NOTICE, 0, &x);
	if (!why.failed && !frame.failed &&
	    wire_cut(SLICE(frame.data, frame.len), WIRE_BODY_MAX, &f, NULL) >
		    0 &&
	    job_event_take(h, &agent->node, agent, &f, &e) < 0)
		log_debug("rank %u is not blamed: %s", news->rank,
			  e.text);
	buf_release(&why);
	buf_release(&frame);
}

/* Whether a worker failed, in the round of the reports. */
static int stall_report_concerns(const struct stall_report *r,
				 const struct wire_exited *x)
{
	return !x->stopped && (x->code || x->signal) && x->round == r->round;
}

/* Whether it failed because a peer did not arrive. */
static int stall_report_has_waited(const struct wire_exited *x)
{
	return !stall_is_loss(x->why) && !stall_is_reported(x->why) &&
	       (x->missed.len || stall_is_timeout(x->why));
}

static void stall_report_find_hang(struct hosted_job *h, struct stall_report *r,
				   const struct wire_exited *x,
				   struct stall_news *news)
{
	for (uint32_t i = 0; i < r->stall.world; i++)
		if (job_rank_end(h->job, i))
			stall_set_ended(&r->stall, i);
	stall_set_ended(&r->stall, x->rank);
	stall_find_culprit(&r->stall, x->rank, x->why, news);
}

/* If the worker failed because of another rank, that rank is blamed first. */
static void stall_report_find_culprit(struct hosted_job *h,
				      struct stall_report *r,
				      const struct wire_exited *x)
{
	struct stall_news news;

	if (odd_call_find(&r->stall, x->why, &news)) {
		if (news.rank != x->rank)
			stall_report_blame(h, &news, x, WIRE_DIFFERS);
		return;
	}
	if (wrong_data_find(&r->stall, x->why, &news)) {
		if (news.rank != x->rank)
			stall_report_blame(h, &news, x, WIRE_WRONG_DATA);
		return;
	}
	if (!stall_report_has_waited(x))
		return;
	stall_report_find_hang(h, r, x, &news);
	if (news.is_stalled)
		stall_report_blame(h, &news, x, WIRE_HANGS);
}

/* ---- EXITEDs that wait for reports ---- */

static void stall_report_apply(struct hosted_job *h, const struct wire_frame *f)
{
	struct stall_report *r = stall_report_running(h);
	struct err e = ERR_INIT;
	struct wire_exited x;
	struct peer *agent;

	if (wire_get_exited(f, &x, &e) < 0)
		return;
	if (r && stall_report_concerns(r, &x))
		stall_report_find_culprit(h, r, &x);
	agent = job_rank_owner(h->job, x.rank);
	if (agent && agent->node &&
	    job_event_take(h, &agent->node, agent, f, &e) < 0)
		log_debug("the end of rank %u: %s", x.rank, e.text);
}

void stall_report_release_exits(struct hosted_job *h)
{
	struct buf frames = h->held.frames;
	struct wire_frame f;
	size_t at = 0;
	long n;

	uv_timer_stop(&h->held.timer);
	h->held.asked = 0;
	h->held.for_peer = 0;
	if (!frames.len)
		return;
	buf_init(&h->held.frames, HELD_EXITS_MAX);
	while ((n = wire_cut(SLICE(frames.data + at, frames.len - at),
			     WIRE_BODY_MAX, &f, NULL)) > 0) {
		stall_report_apply(h, &f);
		at += (size_t)n;
	}
	buf_release(&frames);
	hosted_job_act(h);
}

static void stall_report_on_hold_over(uv_timer_t *t)
{
	struct hosted_job *h = t->data;

	stall_report_release_exits(h);
	conn_flush_all(&h->server->pool);
}

/* The first of them, which decides, has all that it waits for. */
static int stall_report_may_release(const struct hosted_job *h,
				    const struct stall_report *r)
{
	const struct buf *b = &h->held.frames;
	struct stall_news news;
	struct wire_exited x;
	struct wire_frame f;

	return b->len && !h->held.asked &&
	       wire_cut(SLICE(b->data, b->len), WIRE_BODY_MAX, &f,
				  NULL) > 0 &&
	       wire_get_exited(&f, &x, NULL) == 0 &&
	       odd_call_find(&r->stall, x.why, &news);
}

/* ---- a look at all ranks ---- */

/* A peer did not arrive, and what the other nodes last reported does not say
 * why: asks them, and returns how many of them. */
static uint32_t stall_report_ask(struct hosted_job *h, struct stall_report *r,
				 const struct peer *agent,
				 const struct wire_exited *x)
{
	const struct wire_look m = {.round = r->round, .rank = WIRE_ALL_RANKS};
	struct job_node *n = NULL;
	struct stall_news news;
	struct peer *to;
	uint32_t asked = 0;

	/* in a call of libddp all that matters is known */
	if (!stall_report_concerns(r, x) || !stall_report_has_waited(x) ||
	    x->missed.len)
		return 0;
	stall_report_find_hang(h, r, x, &news);
	if (news.is_stalled)
		return 0;
	while ((to = hosted_job_next_agent(h, &n))) {
		if (to == agent)
			continue;
		wire_put_look(conn_out(&to->conn), WIRE_LOOK, WIRE_NOTICE, 0,
			      &m);
		asked++;
	}
	return asked;
}

/* Whether it failed because a peer closed its connections. Until that process,
 * which may take a second to end, is gone, only its victim is. */
static int stall_report_lost_peer(const struct stall_report *r,
				  const struct wire_exited *x)
{
	return stall_report_concerns(r, x) && stall_is_disconnect(x->why);
}

static int stall_report_has_ended(const struct hosted_job *h,
				  const struct stall_report *r)
{
	for (uint32_t i = 0; i < r->stall.world; i++)
		if (job_rank_end(h->job, i))
			return 1;
	return 0;
}

/* For how long that EXITED waits for reports; 0: not at all. */
static uint64_t stall_report_hold_ms(struct hosted_job *h,
				     struct stall_report *r,
				     const struct peer *agent,
				     const struct wire_exited *x)
{
	struct stall_news news;

	if (stall_report_concerns(r, x) &&
	    !odd_call_find(&r->stall, x->why, &news) &&
	    odd_call_needs_reports(&r->stall, x->why))
		return HOLD_MS;
	if (stall_report_lost_peer(r, x) && r->stall.world > 1 &&
	    !stall_report_has_ended(h, r)) {
		h->held.for_peer = 1;
		return PEER_MS;
	}
	h->held.asked = stall_report_ask(h, r, agent, x);
	return h->held.asked ? ASK_MS : 0;
}

int stall_report_take_stack(struct peer *agent, const struct wire_frame *f,
			    struct err *e)
{
	struct hosted_job *h = agent->hosted;
	struct wire_stack m;

	if (wire_get_stack(f, &m, NULL) < 0 || m.rank != WIRE_ALL_RANKS)
		return hosted_job_take_stack(agent, f, e);
	if (h && h->held.asked && m.round == job_round(h->job) &&
	    --h->held.asked == 0)
		stall_report_release_exits(h);
	return 0;
}

/* 1: it was added to those that wait, behind which all others wait as well. */
static int stall_report_hold(struct hosted_job *h, struct stall_report *r,
			     const struct peer *agent,
			     const struct wire_exited *x)
{
	struct buf *b = &h->held.frames;
	size_t before = b->len;
	uint64_t ms = 0;

	if (job_rank_owner(h->job, x->rank) != agent)
		return 0;
	if (b->len && h->held.for_peer && !stall_report_lost_peer(r, x)) {
		/* the peer's end counts first, then those that wait */
		uv_timer_start(&h->held.timer, stall_report_on_hold_over, 0, 0);
		return 0;
	}
	if (!b->len)
		ms = stall_report_hold_ms(h, r, agent, x);
	if (!b->len && !ms)
		return 0;
	if (ms)
		uv_timer_start(&h->held.timer, stall_report_on_hold_over, ms,
			       0);
	wire_put_exited(b, WIRE_EXITED, WIRE_NOTICE, 0, x);
	if (!b->failed)
		return 1;
	b->len = before;
	b->failed = 0;
	stall_report_release_exits(h);
	return 0;
}

int stall_report_take(struct peer *agent, const struct wire_frame *f,
		      struct err *e)
{
	struct hosted_job *h = agent->hosted;
	struct wire_progress m;
	struct stall_report *r;
	struct reader items;
	int rc = wire_get_progress(f, &m, e);

	if (rc < 0 || !h || job_state(h->job) != JOB_RUNNING ||
	    m.round != job_round(h->job))
		return rc;
	r = stall_report_of(h, m.patience_ms);
	reader_init(&items, m.ranks.bytes);
	for (uint32_t i = 0; r && i < m.ranks.count; i++) {
		struct wire_rank x = wire_get_rank_item(&items);

		if (items.bad)
			return err_set(e, ERR_PROTOCOL,
				       "PROGRESS: item %u is too short", i);
		if (x.rank < r->stall.world &&
		    job_rank_owner(h->job, x.rank) == agent &&
		    stall_set(&r->stall, &x) == -ENOMEM)
			log_debug("no memory for the progress of rank %u",
				  x.rank);
	}
	if (r)
		stall_report_check(h, uv_now(h->server->loop));
	if (r && stall_report_may_release(h, r))
		stall_report_release_exits(h);
	return 0;
}

int stall_report_on_exited(struct peer *agent, const struct wire_frame *f)
{
	struct hosted_job *h = agent->hosted;
	struct stall_report *r = stall_report_running(h);
	struct wire_exited x;

	if (!h || wire_get_exited(f, &x, NULL) < 0)
		return 0;
	/* it may fail before the first report */
	if (!r && job_state(h->job) == JOB_RUNNING &&
	    stall_report_has_waited(&x))
		r = stall_report_of(h, 0);
	if (!r)
		return 0;
	if (stall_report_hold(h, r, agent, &x))
		return 1;
	if (stall_report_concerns(r, &x))
		stall_report_find_culprit(h, r, &x);
	return 0;
}

/* ---- for ddprun status ---- */

struct slice stall_report_words(const struct hosted_job *h, uint32_t rank)
{
	const struct stall_report *r = h->stalls;

	if (!r || !r->stall.ranks || rank >= r->stall.world ||
	    r->round != job_round(h->job) || !r->stall.ranks[rank].known)
		return SLICE_STR("");
	return r->stall.ranks[rank].at.words;
}

void stall_report_put_ranks(struct buf *out, struct hosted_job *h)
{
	struct stall_report *r = stall_report_running(h);
	struct buf items = BUF_INIT(WIRE_BODY_MAX / 2);
	struct wire_ranks m = {.job = SLICE_STR(job_id(h->job))};

	if (!r)
		return;
	m.round = r->round;
	m.ranks.count = stall_put_ranks(&r->stall, &items);
	m.ranks.bytes = SLICE(items.data, items.len);
	if (!items.failed) /* else they are too many for one notice */
		wire_put_ranks(out, WIRE_RANKS, WIRE_NOTICE, 0, &m);
	buf_release(&items);
}

/* ---- for Prometheus ---- */

enum stall_gauge { GAUGE_RANK, GAUGE_SHARE };

static void stall_report_put_gauge(struct buf *out, const struct hosted_job *h,
				   const struct stall_report *r,
				   enum stall_gauge gauge)
{
	buf_printf(out, "ddprdzv_slowest_rank%s{",
		   gauge == GAUGE_RANK ? "" : "_wait_ratio");
	gpu_report_put_label(out, "job", SLICE_STR(job_id(h->job)));
	if (gauge == GAUGE_RANK)
		buf_printf(out, "} %u\n", r->slowest);
	else
		buf_printf(out, "} %u.%03u\n", r->slowest_share / 1000,
			   r->slowest_share % 1000);
}

void stall_report_put_metrics(struct buf *out, const struct server *s)
{
	static const char *const heads[] = {
		[GAUGE_RANK] = "# HELP ddprdzv_slowest_rank The rank that "
			       "waits least for the others.\n"
			       "# TYPE ddprdzv_slowest_rank gauge\n",
		[GAUGE_SHARE] = "# HELP ddprdzv_slowest_rank_wait_ratio Part "
				"of the last minute in which the other ranks "
				"waited for it.\n"
				"# TYPE ddprdzv_slowest_rank_wait_ratio "
				"gauge\n",
	};

	for (enum stall_gauge i = GAUGE_RANK; i <= GAUGE_SHARE; i++) {
		struct hosted_job *h = NULL;
		int is_first = 1;

		while ((h = server_next_named_job(s, h))) {
			const struct stall_report *r = stall_report_running(h);

			if (!r || !r->has_slowest)
				continue;
			if (is_first)
				buf_printf(out, "%s", heads[i]);
			is_first = 0;
			stall_report_put_gauge(out, h, r, i);
		}
	}
}

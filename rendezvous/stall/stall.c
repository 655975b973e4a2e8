/* stall.c: follows each wait to the rank that it ends at. */
#include "rendezvous/stall/stall_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	CALL_MAX = 160,
	WORDS_MAX = 400,
	GROUPS_MAX = 1024,  /* bytes of a rank's groups */
	CHAIN_MAX = 32,	    /* ranks that wait for each other */
	WORKS_FACTOR = 10,  /* patience with a rank that shows work */
	START_CALLS = 10, /* what a job does before them is not its pace */
};

int stall_init(struct stall *s, uint32_t world, uint64_t patience_ms)
{
	*s = (struct stall){.world = world, .patience_ms = patience_ms};
	s->ranks = calloc(world ? world : 1, sizeof(*s->ranks));
	return s->ranks ? 0 : -ENOMEM;
}

static void stall_rank_release(struct stall_rank *r)
{
	free((char *)r->at.call.data);
	free((char *)r->at.words.data);
	free((char *)r->at.cause.data);
	free((char *)r->at.groups.bytes.data);
	r->at.call = r->at.words = r->at.cause = (struct slice){NULL, 0};
	r->at.groups = (struct wire_items){0};
}

void stall_release(struct stall *s)
{
	for (uint32_t i = 0; s->ranks && i < s->world; i++)
		stall_rank_release(&s->ranks[i]);
	free(s->ranks);
	*s = (struct stall){0};
}

static int stall_copy_groups(struct wire_items *to, struct wire_items from)
{
	char *p;

	if (!from.count || from.bytes.len > GROUPS_MAX)
		return 0;
	p = malloc(from.bytes.len);
	if (!p)
		return -ENOMEM;
	memcpy(p, from.bytes.data, from.bytes.len);
	*to = (struct wire_items){from.count, {p, from.bytes.len}};
	return 0;
}

static int stall_is_same_call(const struct wire_rank *a,
			      const struct wire_rank *b)
{
	return (a->doing == RANK_CALLS) == (b->doing == RANK_CALLS) &&
	       a->world == b->world && a->comm == b->comm &&
	       a->number == b->number && a->peer == b->peer;
}

int stall_set(struct stall *s, const struct wire_rank *r)
{
	struct stall_rank *own;

	if (r->rank >= s->world || r->doing >= RANK_DOINGS)
		return ERR_PROTOCOL;
	own = &s->ranks[r->rank];
	own->report = ++s->reports;
	if (own->known && !stall_is_same_call(&own->at, r))
		own->changed = own->report;
	stall_rank_release(own);
	own->at = *r;
	own->at.call = own->at.words = own->at.cause = (struct slice){NULL, 0};
	own->at.groups = (struct wire_items){0};
	own->known = 1;
	if (stall_copy(&own->at.call, r->call, CALL_MAX) < 0 ||
	    stall_copy(&own->at.words, r->words, WORDS_MAX) < 0 ||
	    stall_copy(&own->at.cause, r->cause, WORDS_MAX) < 0 ||
	    stall_copy_groups(&own->at.groups, r->groups) < 0)
		return -ENOMEM;
	return 0;
}

void stall_set_ended(struct stall *s, uint32_t rank)
{
	if (rank < s->world)
		s->ranks[rank].ended = 1;
}

uint32_t stall_put_ranks(const struct stall *s, struct buf *items)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->world; i++) {
		if (!s->ranks[i].known || s->ranks[i].ended)
			continue;
		wire_put_rank_item(items, &s->ranks[i].at);
		n++;
	}
	return n;
}

/* ---- which rank the others wait for ---- */

int stall_is_live(const struct stall *s, uint32_t rank)
{
	return s->ranks[rank].known && !s->ranks[rank].ended;
}

enum wire_doing stall_doing(const struct stall *s, uint32_t rank)
{
	const struct stall_rank *r = &s->ranks[rank];

	if (!r->known)
		return RANK_STARTS;
	if (r->at.doing == RANK_STOPPED || r->at.doing == RANK_CALLS)
		return r->at.doing;
	return r->at.quiet_ms < s->patience_ms / SHORT
		       ? RANK_WORKS
		       : (enum wire_doing)r->at.doing;
}

static int stall_is_work(enum wire_doing doing)
{
	return doing == RANK_WORKS || doing == RANK_LOADS ||
	       doing == RANK_BUSY || doing == RANK_STARTS;
}

/* How long a job may wait for a rank that does this. */
static uint64_t stall_patience(const struct stall *s, enum wire_doing doing)
{
	uint64_t ms = s->patience_ms;

	if (doing == RANK_STOPPED)
		return ms;
	if (doing == RANK_WORKS || doing == RANK_STARTS)
		ms *= WORKS_FACTOR;
	/* shorter pauses get no line anyway */
	return s->learned_ms[doing] < s->patience_ms ||
			       ms > 2 * s->learned_ms[doing]
		       ? ms
		       : 2 * s->learned_ms[doing];
}

/* Whether rank has not entered the collective that w is in. */
static int stall_is_behind(const struct stall *s, const struct wire_rank *w,
			   uint32_t rank)
{
	const struct wire_rank *r = &s->ranks[rank].at;

	if (rank == w->rank || s->ranks[rank].ended)
		return 0;
	if (!s->ranks[rank].known)
		return w->comm == 0;
	if (w->comm == 0)
		return r->world < w->number;
	/* which ranks a smaller group has is not known here */
	return r->number == 0 || r->comm != w->comm || r->number < w->number;
}

/* Whether a is more likely to be the cause than b. */
static int stall_is_worse(const struct stall *s, uint32_t a, uint32_t b)
{
	int a_calls = stall_doing(s, a) == RANK_CALLS;
	int b_calls = stall_doing(s, b) == RANK_CALLS;
	uint64_t pa = stall_patience(s, stall_doing(s, a));
	uint64_t pb = stall_patience(s, stall_doing(s, b));

	if (a_calls != b_calls)
		return b_calls;
	if (pa != pb)
		return pa < pb;
	return s->ranks[a].at.quiet_ms > s->ranks[b].at.quiet_ms;
}

/* The rank that w waits for; NOBODY: all have entered it. *behind: how many
 * have not. */
static int64_t stall_awaited(const struct stall *s, const struct wire_rank *w,
			     uint32_t *behind)
{
	int64_t found = NOBODY;

	*behind = 1;
	if (w->number == 0)
		return w->peer >= 0 && (uint32_t)w->peer < s->world &&
				       !s->ranks[w->peer].ended
			       ? w->peer
			       : NOBODY;
	*behind = 0;
	for (uint32_t i = 0; i < s->world; i++) {
		if (!stall_is_behind(s, w, i))
			continue;
		++*behind;
		if (found < 0 || stall_is_worse(s, i, (uint32_t)found))
			found = i;
	}
	return found;
}

int64_t stall_follow(const struct stall *s, uint32_t w, uint32_t *behind)
{
	uint32_t at = w, more;
	int64_t next;

	*behind = 0;
	for (int i = 0; i < CHAIN_MAX; i++) {
		next = stall_awaited(s, &s->ranks[at].at, &more);
		if (next == w)
			return NOBODY;
		if (next == NOBODY)
			return at == w ? (int64_t)NOBODY : (int64_t)at;
		*behind = more;
		if (stall_doing(s, (uint32_t)next) != RANK_CALLS)
			return next;
		at = (uint32_t)next;
	}
	return NOBODY;
}

void stall_name(const struct stall *s, struct stall_news *out, uint32_t rank,
		uint64_t ms)
{
	out->is_stalled = 1;
	out->rank = rank;
	out->local_rank = s->ranks[rank].at.local_rank;
	out->pid = s->ranks[rank].at.pid;
	out->doing = stall_doing(s, rank);
	out->ms = ms;
}

/* ---- the verdict ---- */

/* ddp_once has no timeout: a rank downloads data there while others wait. */
static int stall_may_last(const struct wire_rank *w)
{
	return w->call.len >= 4 && !memcmp(w->call.data, "once", 4);
}

/* Whether a rank has entered or left a call since that rank's last report. All
 * may have gone on then: its report is older than the end of its wait. */
static int stall_is_stale(const struct stall *s, uint32_t waiter)
{
	for (uint32_t i = 0; i < s->world; i++)
		if (stall_is_live(s, i) &&
		    s->ranks[i].changed > s->ranks[waiter].report)
			return 1;
	return 0;
}

static void stall_judge_wait(const struct stall *s, uint32_t waiter,
			     struct stall_news *out)
{
	const struct wire_rank *w = &s->ranks[waiter].at;
	uint32_t behind;
	int64_t culprit = stall_follow(s, waiter, &behind);

	/* a cycle: a rank is in another call than the rest */
	if (culprit < 0 && w->number)
		culprit = stall_awaited(s, w, &behind);
	if (culprit < 0 && stall_is_stale(s, waiter))
		return;
	stall_name(s, out, culprit < 0 ? waiter : (uint32_t)culprit,
		   s->ranks[waiter].at.quiet_ms);
	if (culprit >= 0 && out->doing != RANK_STOPPED &&
	    stall_may_last(w))
		out->doing = RANK_WORKS;
	/* what starts reads, computes or touches memory; others are already in
	 * a call */
	else if (culprit >= 0 && out->doing == RANK_STARTS &&
		 s->ranks[culprit].known &&
		 s->ranks[culprit].at.quiet_ms >= s->patience_ms)
		out->doing = RANK_IDLE;
	stall_describe_wait(s, waiter, culprit, behind, out);
}

/* The rank that has been in a call for longest; NOBODY: none. */
static int64_t stall_longest_waiter(const struct stall *s)
{
	int64_t found = NOBODY;
	uint64_t most = s->patience_ms / SHORT;

	for (uint32_t i = 0; i < s->world; i++) {
		if (stall_is_live(s, i) && stall_doing(s, i) == RANK_CALLS &&
		    s->ranks[i].at.quiet_ms > most) {
			most = s->ranks[i].at.quiet_ms;
			found = i;
		}
	}
	return found;
}

int64_t stall_stopped_rank(const struct stall *s)
{
	for (uint32_t i = 0; i < s->world; i++)
		if (stall_is_live(s, i) && stall_doing(s, i) == RANK_STOPPED)
			return i;
	return NOBODY;
}

int64_t stall_bereft_rank(const struct stall *s)
{
	static const char *const signs[] = {" (its process ",
					    " (its stderr ends with: ", NULL};

	for (uint32_t i = 0; i < s->world; i++)
		if (stall_is_live(s, i) && stall_doing(s, i) == RANK_IDLE &&
		    stall_has_words(s->ranks[i].at.words, signs))
			return i;
	return NOBODY;
}

/* launcher/python writes it. */
static const char *const stall_torch[] = {" (torch.distributed: ", NULL};

/* Idle ranks also differ by what they sleep in. */
static int stall_do_same(const struct stall *s, uint32_t a, uint32_t b)
{
	const struct slice *x = &s->ranks[a].at.words;
	const struct slice *y = &s->ranks[b].at.words;

	return stall_doing(s, a) == stall_doing(s, b) &&
	       (stall_doing(s, a) != RANK_IDLE ||
		(x->len == y->len &&
		 (!x->len || !memcmp(x->data, y->data, x->len))));
}

int64_t stall_odd_rank(const struct stall *s)
{
	for (uint32_t i = 0; i < s->world; i++) {
		uint32_t others = 0;
		int64_t other = NOBODY;
		int is_odd = stall_is_live(s, i);

		for (uint32_t k = 0; k < s->world && is_odd; k++) {
			if (k == i || !stall_is_live(s, k))
				continue;
			others++;
			is_odd = !stall_do_same(s, i, k) &&
				 (other < 0 ||
				  stall_do_same(s, (uint32_t)other, k));
			other = k;
		}
		if (is_odd && others >= 2)
			return i;
	}
	return NOBODY;
}

/* Where all are idle: one whose agent's words have none of the signs of a wait
 * for other ranks, if the words of others have them. NOBODY: there is none. */
static int64_t stall_rank_without(const struct stall *s,
				  const char *const *signs)
{
	int64_t found = NOBODY;
	int is_waited_for = 0;

	for (uint32_t i = 0; i < s->world; i++) {
		if (!stall_is_live(s, i) || stall_doing(s, i) != RANK_IDLE)
			continue;
		if (stall_has_words(s->ranks[i].at.words, signs))
			is_waited_for = 1;
		else if (found == NOBODY)
			found = i;
	}
	return is_waited_for ? found : NOBODY;
}

uint64_t stall_still_ms(const struct wire_rank *r)
{
	return r->step < 0 && r->does_ms < r->quiet_ms ? r->does_ms
						       : r->quiet_ms;
}

/* Whether a, if no rank has a new step, is more likely to be the cause than b:
 * a rank that is idle waits for a rank that is not. */
static int stall_is_slower(const struct stall *s, uint32_t a, uint32_t b)
{
	int a_idle = stall_doing(s, a) == RANK_IDLE;
	int b_idle = stall_doing(s, b) == RANK_IDLE;

	return a_idle != b_idle ? b_idle
				: s->ranks[a].at.step < s->ranks[b].at.step;
}

/* No rank is in a call that we know of: all of them idle, or all that report
 * steps have stopped doing so. */
static void stall_judge_quiet(const struct stall *s, struct stall_news *out)
{
	uint64_t least = UINT64_MAX;
	/* launcher/watch writes them */
	static const char *const peers[] = {" a socket", "(futex)", NULL};
	uint32_t live = 0, idle = 0, stepping = 0;
	int64_t slowest = NOBODY, odd;

	for (uint32_t i = 0; i < s->world; i++) {
		const struct wire_rank *r = &s->ranks[i].at;

		if (s->ranks[i].ended)
			continue;
		live++;
		idle += stall_doing(s, i) == RANK_IDLE;
		stepping += s->ranks[i].known && r->step >= 0 &&
			    stall_doing(s, i) != RANK_WORKS;
		if (stall_still_ms(r) < least)
			least = stall_still_ms(r);
		if (slowest < 0 || stall_is_slower(s, i, (uint32_t)slowest))
			slowest = i;
	}
	if (!live || (idle < live && stepping < live) ||
	    least < s->patience_ms / SHORT)
		return;
	odd = stall_bereft_rank(s);
	if (odd == NOBODY)
		odd = stall_rank_without(s, stall_torch);
	if (odd == NOBODY)
		odd = stall_unanswered_rank(s);
	if (odd == NOBODY)
		odd = stall_odd_rank(s);
	if (odd == NOBODY)
		odd = stall_rank_without(s, peers);
	if (stepping == live) {
		if (odd >= 0 &&
		    stall_doing(s, (uint32_t)slowest) == RANK_IDLE &&
		    s->ranks[odd].at.step == s->ranks[slowest].at.step)
			slowest = odd;
		stall_name(s, out, (uint32_t)slowest, least);
		stall_describe_alone(s, "no rank reports a step; ", out);
	} else {
		stall_name(s, out, odd < 0 ? (uint32_t)slowest : (uint32_t)odd,
			   least);
		stall_describe_alone(s, live > 1 ? "all ranks are idle; " : "",
				     out);
	}
}

/* Ranks that are idle in torch.distributed wait for a rank that is not idle.
 * Returns 0 if there is none, or if a rank is idle elsewhere. */
static int stall_judge_torch(const struct stall *s, struct stall_news *out)
{
	uint64_t least = UINT64_MAX;
	int64_t found = NOBODY;

	for (uint32_t i = 0; i < s->world; i++) {
		const struct wire_rank *r = &s->ranks[i].at;

		if (s->ranks[i].ended)
			continue;
		if (!s->ranks[i].known)
			return 0;
		if (r->doing != RANK_IDLE) {
			if (found < 0 || r->doing > s->ranks[found].at.doing)
				found = i;
			continue;
		}
		if (!stall_has_words(r->words, stall_torch))
			return 0;
		if (stall_still_ms(r) < least)
			least = stall_still_ms(r);
	}
	if (found < 0 || least == UINT64_MAX || least < s->patience_ms / SHORT)
		return 0;
	stall_name(s, out, (uint32_t)found, least);
	out->doing = (enum wire_doing)s->ranks[found].at.doing;
	stall_describe_alone(s, "all others wait in torch.distributed; ", out);
	return 1;
}

static void stall_judge(struct stall *s, struct stall_news *out)
{
	int64_t waiter = stall_longest_waiter(s);
	int64_t stopped = stall_stopped_rank(s);

	s->is_start = waiter >= 0 &&
		      s->ranks[waiter].at.world <= START_CALLS;
	if (waiter >= 0) {
		stall_judge_wait(s, (uint32_t)waiter, out);
	} else if (stopped >= 0) {
		stall_name(s, out, (uint32_t)stopped,
			   s->ranks[stopped].at.does_ms);
		stall_describe_alone(s, "", out);
	} else if (!stall_judge_mpi(s, out) && !stall_judge_torch(s, out)) {
		stall_judge_quiet(s, out);
	}
}

/* The job goes on: remembers how long it has paused. */
static void stall_end_pause(struct stall *s, struct stall_news *out)
{
	for (int i = 0; i < RANK_DOINGS; i++)
		if (s->paused_ms[i] > s->learned_ms[i])
			s->learned_ms[i] = s->paused_ms[i];
	memset(s->paused_ms, 0, sizeof(s->paused_ms));
	if (s->shown_ms) {
		out->is_over = 1;
		stall_describe_end(s, out);
	}
	s->shown_ms = s->pause_ms = 0;
}

void stall_check(struct stall *s, struct stall_news *out)
{
	*out = (struct stall_news){0};
	stall_judge(s, out);
	if (!out->is_stalled || out->ms < s->pause_ms) {
		stall_end_pause(s, out);
		if (out->is_over)
			return;
	}
	if (!out->is_stalled)
		return;
	s->pause_ms = out->ms;
	/* it loads data, or compiles, once */
	if (!s->is_start || !stall_is_work(out->doing))
		s->paused_ms[out->doing] = out->ms;
	out->show = out->ms >= (s->shown_ms ? 2 * s->shown_ms
					    : stall_patience(s, out->doing));
	if (out->show)
		s->shown_ms = out->ms;
}

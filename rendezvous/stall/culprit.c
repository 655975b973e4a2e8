/* culprit.c: a worker has failed because a peer did not arrive: which rank
 * hangs, by what all ranks do, and by the ranks that the worker's error names.
 */
#include <ctype.h>
#include <string.h>

#include "rendezvous/stall/stall_internal.h"

/* ---- the words of the error ---- */

/* "1 failed to pass", "s 2, 3 failed to pass": whether rank is among them. */
static int stall_lists(struct slice s, uint32_t rank)
{
	static const char *const verbs[] = {
		" failed to pass", " timed out", " did not ", " has not ",
		" have not ", NULL,
	};
	uint64_t n;
	int is_listed = 0;

	if (s.len && s.data[0] == 's')
		s = SLICE(s.data + 1, s.len - 1);
	while (s.len > 1 && s.data[0] == ' ' &&
	       isdigit((unsigned char)s.data[1])) {
		s = SLICE(s.data + 1, s.len - 1);
		for (n = 0; s.len && isdigit((unsigned char)s.data[0]); ) {
			if (n <= UINT32_MAX)
				n = 10 * n + (uint64_t)(s.data[0] - '0');
			s = SLICE(s.data + 1, s.len - 1);
		}
		is_listed |= n == rank;
		if (s.len && s.data[0] == ',')
			s = SLICE(s.data + 1, s.len - 1);
	}
	for (size_t i = 0; is_listed && verbs[i]; i++)
		if (slice_begins(s, verbs[i]))
			return 1;
	return 0;
}

/* Whether the error says that this rank did not arrive, as torch's
 * monitored_barrier does. */
static int stall_is_named(struct slice why, uint32_t rank)
{
	static const char word[] = "ank";
	const char *at;

	while (why.len && (at = slice_find(why, word))) {
		at += strlen(word);
		why = SLICE(at, (size_t)(why.data + why.len - at));
		if (stall_lists(why, rank))
			return 1;
	}
	return 0;
}

/* ---- the ranks ---- */

static int stall_hangs(const struct stall *s, uint32_t rank)
{
	enum wire_doing doing = stall_doing(s, rank);

	return stall_is_live(s, rank) &&
	       (doing == RANK_STOPPED || doing == RANK_IDLE ||
		doing == RANK_BUSY || doing == RANK_LOADS ||
		doing == RANK_BLOCKED) &&
	       s->ranks[rank].at.quiet_ms >= s->patience_ms / SHORT;
}

static int64_t stall_named_rank(const struct stall *s, struct slice why)
{
	for (uint32_t i = 0; i < s->world; i++)
		if (stall_hangs(s, i) && stall_is_named(why, i))
			return i;
	return NOBODY;
}

/* A rank that has not reached a server yet, by a socket or by what torch
 * says on its stderr. It may be busy between two tries. A victim that does the
 * same shows that the fault is elsewhere. */
static int64_t stall_connecting_rank(const struct stall *s, struct slice why)
{
	static const char *const signs[] = {
		"trying to connect to ", "failed to connect to ",
		", connecting to ", NULL,
	};

	if (stall_has_words(why, signs))
		return NOBODY;
	for (uint32_t i = 0; i < s->world; i++)
		if (stall_is_live(s, i) && stall_doing(s, i) != RANK_CALLS &&
		    stall_has_words(s->ranks[i].at.words, signs))
			return i;
	return NOBODY;
}

/* The only rank that has not exited, or NOBODY. */
static int64_t stall_last_rank(const struct stall *s)
{
	int64_t found = NOBODY;

	for (uint32_t i = 0; i < s->world; i++) {
		if (s->ranks[i].ended)
			continue;
		if (found >= 0)
			return NOBODY;
		found = i;
	}
	return found;
}

/* Without a call that the victim was in. */
static int64_t stall_likely_rank(const struct stall *s)
{
	int64_t found = stall_stopped_rank(s);

	if (found == NOBODY)
		found = stall_last_rank(s);
	if (found == NOBODY)
		found = stall_bereft_rank(s);
	if (found == NOBODY)
		found = stall_odd_rank(s);
	return found >= 0 && stall_hangs(s, (uint32_t)found) ? found
							     : (int64_t)NOBODY;
}

/* The victim was in a call of libddp. */
static void stall_find_missing(const struct stall *s, uint32_t victim,
			       struct stall_news *out)
{
	uint32_t behind;
	int64_t found;

	if (s->ranks[victim].at.quiet_ms < s->patience_ms / SHORT)
		return; /* it did not wait */
	found = stall_follow(s, victim, &behind);
	if (found < 0 || !stall_hangs(s, (uint32_t)found))
		return;
	stall_name(s, out, (uint32_t)found, s->ranks[victim].at.quiet_ms);
	stall_describe_wait(s, victim, found, behind, out);
}

void stall_find_culprit(const struct stall *s, uint32_t victim,
			struct slice why, struct stall_news *out)
{
	int64_t found;

	*out = (struct stall_news){0};
	if (victim >= s->world)
		return;
	if (s->ranks[victim].known &&
	    s->ranks[victim].at.doing == RANK_CALLS) {
		stall_find_missing(s, victim, out);
		return;
	}
	found = stall_named_rank(s, why);
	if (found == NOBODY)
		found = stall_connecting_rank(s, why);
	if (found == NOBODY)
		found = stall_likely_rank(s);
	if (found < 0 || found == victim)
		return;
	stall_name(s, out, (uint32_t)found, s->ranks[found].at.quiet_ms);
	stall_describe_alone(s, "", out);
}

/* deadlock.c: cycles of blocked ranks. */
#include "worker-sdk/core/deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/core/call.h"

/* b lists all its communicators, so it is a rank of no other. */
int ddp__has_not_begun(const struct ddp__blocked *b, uint64_t comm,
		       uint64_t number)
{
	for (uint32_t i = 0; i < b->comms && i < DDP__BLOCKED_COMMS; i++)
		if (b->begun[i].comm == comm)
			return b->begun[i].calls < number;
	return 0;
}

int ddp__blocked_awaits(const struct ddp__blocked *a,
			const struct ddp__blocked *b)
{
	int needs = a->needs == DDP__NEEDS_ALL || a->needs == b->rank ||
		    (a->needs == DDP__NEEDS_HOST && a->host == b->host);

	return needs && a->turn && b->turn && a->rank != b->rank &&
	       ddp__has_not_begun(b, a->comm, a->number);
}

static int deadlock_contains(const int *found, int n, int place)
{
	for (int i = 0; i < n; i++)
		if (found[i] == place)
			return 1;
	return 0;
}

int ddp__blocked_reach(const struct ddp__blocked *all, int n, int *found,
		       int n_found, int most)
{
	for (int i = 0; i < n_found; i++)
		for (int to = 0; to < n && n_found < most; to++)
			if (ddp__blocked_awaits(&all[found[i]], &all[to]) &&
			    !deadlock_contains(found, n_found, to))
				found[n_found++] = to;
	return n_found;
}

/* Starts the cycle at its lowest rank, so that all its ranks report the same
 * text. */
static void deadlock_rotate(const struct ddp__blocked *all, int *cycle, int n)
{
	int from[DDP__CYCLE_MAX], first = 0;

	for (int i = 1; i < n; i++)
		if (all[cycle[i]].rank < all[cycle[first]].rank)
			first = i;
	for (int i = 0; i < n; i++)
		from[i] = cycle[i];
	for (int i = 0; i < n; i++)
		cycle[i] = from[(first + i) % n];
}

/* Writes the path found from `me` to `last`. Returns its length, or 0 if it is
 * too long. */
static int deadlock_path(const int *before, int me, int last,
			 int cycle[DDP__CYCLE_MAX])
{
	int n = 1;

	for (int at = last; at != me; at = before[at])
		n++;
	if (n > DDP__CYCLE_MAX)
		return 0;
	for (int at = last, i = n; i > 0; at = before[at])
		cycle[--i] = at;
	return n;
}

/* Breadth-first search: the first path back to me is the shortest. next: the
 * ranks seen, in order; before: the rank from which each was seen. */
static int deadlock_search(const struct ddp__blocked *all, int n, int me,
			   int *next, int *before, int cycle[DDP__CYCLE_MAX])
{
	int seen = 1;

	for (int i = 0; i < n; i++)
		before[i] = -1;
	before[me] = next[0] = me;
	for (int i = 0; i < seen; i++)
		for (int to = 0; to < n; to++) {
			if (!ddp__blocked_awaits(&all[next[i]], &all[to]))
				continue;
			if (to == me)
				return deadlock_path(before, me, next[i],
						     cycle);
			if (before[to] >= 0)
				continue;
			before[to] = next[i];
			next[seen++] = to;
		}
	return 0;
}

int ddp__deadlock_find(const struct ddp__blocked *all, int n, int me,
		       int cycle[DDP__CYCLE_MAX])
{
	int *scratch = malloc(2 * (size_t)n * sizeof(*scratch)), length = 0;

	if (scratch)
		length = deadlock_search(all, n, me, scratch, scratch + n,
					 cycle);
	free(scratch);
	if (length)
		deadlock_rotate(all, cycle, length);
	return length;
}

/* ---- error text */

static int deadlock_is_of_reducer(const struct ddp__blocked *b)
{
	const char *slash = strrchr(b->group, '/');

	return (slash ? slash[1] : b->group[0]) == 'r';
}

static const char *deadlock_advice(const struct ddp__blocked *all,
				   const int *cycle, int n)
{
	for (int i = 0; i < n; i++)
		if (deadlock_is_of_reducer(&all[cycle[i]]))
			return "all ranks must make the same steps of a "
			       "reducer, with the same sync, and the same "
			       "other calls within them";
	return "all ranks must make the calls of their communicators in the "
	       "same order";
}

/* "barrier #3 of group 1.0" */
static char *deadlock_call(const struct ddp__blocked *b, char *out)
{
	struct ddp__call call;

	ddp__call_unpack(&call, b->word, b->number);
	call.group = b->group[0] ? b->group : NULL;
	return ddp__call_text(&call, out);
}

enum { NAMED_MAX = 4 }; /* ranks of a cycle that a sentence names */

int ddp__deadlock_error(const struct ddp__blocked *all, const int *cycle,
			int n, const struct ddp__peers *peers, struct err *e)
{
	char list[ERR_TEXT_MAX], call[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	char first[DDP__NAME_MAX], more[48] = "";
	int named = n < NAMED_MAX ? n : NAMED_MAX;
	size_t len = 0;

	peers->name(peers->owner, all[cycle[0]].rank, first);
	for (int i = 0; i < named; i++) {
		const struct ddp__blocked *b = &all[cycle[i]];

		len += (size_t)snprintf(
			list + len, sizeof(list) - len, "%s waits in %s for ",
			i ? ", which" : first, deadlock_call(b, call));
		if (i + 1 < named)
			len += (size_t)snprintf(
				list + len, sizeof(list) - len, "%s",
				peers->name(peers->owner,
					    all[cycle[i + 1]].rank, name));
	}
	if (named < n)
		snprintf(more, sizeof(more),
			 "one of %d more ranks, which wait for ", n - named);
	return err_set(e, ERR_ARGUMENT, "%s%s%s: %s", list, more, first,
		       deadlock_advice(all, cycle, n));
}

/* restarts.c: what the server concludes from restarts (docs/restarts.md):
 * whether they make progress, judged by the steps that workers report; and
 * which node fails repeatedly at the start, so that a spare must replace it. */
#include <stdio.h>

#include "base/log.h"
#include "rendezvous/round/job_internal.h"

enum { START_MS = 60000 }; /* workers that report no steps have started after
			    * this time */

void restarts_begin(struct job *j)
{
	j->restarts.last = 0;
	j->restarts.known = 0;
	j->restarts.has_swapped = 0;
}

/* ---- progress ---- */

int restarts_are_in_vain(struct job *j)
{
	struct job_restarts *r = &j->restarts;
	char who[40], text[160];

	if (r->last > r->best || r->has_swapped) {
		if (r->last > r->best)
			r->best = r->last;
		r->in_vain = 0;
		return 0;
	}
	/* a node that has left may have reached a later step; and only failures
	 * count */
	if (!r->best || r->known < j->nnodes ||
	    j->end.verdict != WIRE_RESTART)
		return 0;
	r->in_vain++;
	if (!j->max_no_progress || r->in_vain < j->max_no_progress)
		return 0;
	if (r->in_vain == 1)
		snprintf(who, sizeof(who), "the restart");
	else
		snprintf(who, sizeof(who), "%u restarts in a row", r->in_vain);
	snprintf(text, sizeof(text),
		 "%s reached no step beyond %llu (--max-no-progress-restarts)",
		 who, (unsigned long long)(r->best - 1));
	end_cause_give_up(j, text);
	return 1;
}

/* ---- nodes that fail at the start ---- */

/* Before the first step of its workers; if they never reported one, within a
 * short time. */
static int restarts_is_start(const struct job_node *n,
			     const struct wire_exited *m)
{
	return !m->steps && (n->has_steps || m->ran_ms < START_MS);
}

static struct job_node *restarts_find_heir(const struct job *j,
					   const struct job_node *n)
{
	struct job_node *heir;

	for (heir = j->spares ? j->nodes : NULL; heir; heir = heir->next)
		if (heir->place == NODE_SPARE && heir->swap == NODE_GOOD &&
		    j->nproc - n->nproc + heir->nproc <= WIRE_WORLD_MAX)
			return heir;
	return NULL;
}

static void restarts_announce_swap(struct job *j, struct job_node *n,
				   const struct job_node *heir)
{
	char name[300], times[24];

	if (n->bad_starts == 1)
		snprintf(times, sizeof(times), "once");
	else
		snprintf(times, sizeof(times), "%u times in a row",
			 n->bad_starts);
	snprintf(j->swap_text, sizeof(j->swap_text),
		 "%s was the first to fail %s at the start (--swap-after): the "
		 "spare %.255s takes its place, and it waits as a spare",
		 node_name(n, name), times, heir->host);
	j->end.swap = SLICE_STR(j->swap_text);
	n->swap = NODE_TO_SWAP;
}

void restarts_note_failure(struct job *j, struct job_node *n,
			   const struct wire_exited *m)
{
	const struct job_node *heir;

	/* blamed is a rank that left before, with code 0 */
	if (j->end.verdict != WIRE_RESTART || (uint32_t)j->end.rank != m->rank)
		return;
	if (!restarts_is_start(n, m)) {
		for (n = j->nodes; n; n = n->next)
			n->bad_starts = 0;
		return;
	}
	n->bad_starts++;
	heir = restarts_find_heir(j, n);
	if (heir && j->swap_after && n->bad_starts >= j->swap_after)
		restarts_announce_swap(j, n, heir);
}

/* If the spare has gone meanwhile, n keeps its place. */
static void restarts_swap(struct job *j, struct job_node *n)
{
	struct job_node *heir = restarts_find_heir(j, n);

	n->swap = NODE_GOOD;
	if (!heir)
		return;
	n->swap = NODE_SWAPPED;
	n->bad_starts = 0;
	join_demote(j, n);
	heir = join_promote(j);
	j->restarts.has_swapped = 1;
	transition_send_state(j); /* the others may have waited for n alone */
	log_debug("job '%s': %s takes the place of %s, which is a spare now",
		 j->id, heir ? heir->host : "no node", n->host);
}

void restarts_on_joined(struct job *j, struct job_node *n, uint64_t steps)
{
	j->restarts.known++;
	n->has_steps |= steps > 0;
	if (steps > j->restarts.last)
		j->restarts.last = steps;
	if (n->swap == NODE_TO_SWAP)
		restarts_swap(j, n);
}

/* round_transition.c: the end of one round and the beginning of the next: which
 * nodes are notified, which state follows, which spares are promoted. job.c
 * decides when. And what the server concludes from restarts. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/round/job_internal.h"

/* ---- actions ---- */

void transition_act(struct job *j, struct job_action a)
{
	if (j->nactions == j->actions_cap) {
		size_t cap = j->actions_cap ? j->actions_cap * 2 : 8;
		void *p = realloc(j->actions, cap * sizeof(*j->actions));

		if (!p) {
			j->lost_action = 1;
			return;
		}
		j->actions = p;
		j->actions_cap = cap;
	}
	j->actions[j->nactions++] = a;
}

int job_lost_action(const struct job *j)
{
	return j->lost_action;
}

const struct job_action *job_next_action(struct job *j)
{
	if (j->next_action < j->nactions)
		return &j->actions[j->next_action++];
	j->next_action = j->nactions = 0;
	return NULL;
}

void transition_send_fates(struct job *j, struct job_rank *r, const char *text)
{
	struct job_fate *f;

	while ((f = r->fates)) {
		job_fate_release(f);
		transition_act(j,
			       (struct job_action){JOB_FATE_KNOWN, 0, text, f});
	}
}

/* ---- the end of a round ---- */

static void transition_set_state(struct job *j, enum job_state to,
				 const char *why)
{
	log_debug("job '%s': %s -> %s, %s", j->id, job_state_name(j->state),
		  job_state_name(to), why);
	j->state = to;
}

void transition_release(struct job *j)
{
	for (uint32_t i = 0; j->ranks && i < j->world_size; i++)
		free(j->ranks[i].text);
	free(j->ranks);
	j->ranks = NULL;
	j->world_size = j->exited = 0;
	buf_reset(&j->early);
}

void transition_send_state(struct job *j)
{
	if (j->members || j->spares)
		transition_act(j, (struct job_action){.kind = JOB_TELL_STATE});
}

static void transition_fill_spares(struct job *j)
{
	const struct job_node *n;

	while ((n = join_promote(j)))
		log_debug("job '%s': the spare %s becomes a member", j->id,
			  n->host);
}

/* j->end is set. The ranks stay known until the next round begins. */
void transition_end(struct job *j)
{
	struct job_node *n;
	int restart = j->end.verdict == WIRE_RESTART;
	int regroup = j->end.verdict == WIRE_REGROUP;

	for (uint32_t i = 0; j->ranks && i < j->world_size; i++)
		transition_send_fates(j, &j->ranks[i], j->end_text);
	for (n = j->nodes; n; n = n->next) {
		n->gets_end = n->running || !(restart || regroup);
		if (n->running && n->joined) {
			n->joined = 0;
			j->joined--;
			j->nproc -= n->nproc;
		}
		n->running = 0;
	}
	transition_act(j, (struct job_action){.kind = JOB_TELL_END});
	transition_set_state(j, restart || regroup ? JOB_RESTARTING : JOB_OVER,
			     j->end_text);
	restarts_begin(j);
	j->round++;
	j->attempt += restart;
	j->changes += regroup;
	if (restart || regroup) {
		transition_fill_spares(j);
		transition_send_state(j);
	}
}

/* ---- the beginning of a round ---- */

void transition_start(struct job *j)
{
	uint32_t rank = 0;

	j->calling = 0;
	transition_fill_spares(j);
	transition_release(j);
	if (assign_ranks(j) == 0)
		j->ranks = calloc(j->world_size, sizeof(*j->ranks));
	if (!j->ranks) {
		/* JOB_CANNOT_START makes this an event of its own: a next
		 * server, which may have the memory, replays it */
		j->world_size = 0;
		transition_act(j,
			       (struct job_action){.kind = JOB_CANNOT_START});
		return;
	}
	for (uint32_t i = 0; i < j->nnodes; i++)
		for (uint32_t k = 0; k < j->order[i]->nproc; k++)
			j->ranks[rank++].node = j->order[i];
	transition_set_state(j, JOB_RUNNING, "all nodes have joined");
	transition_act(j, (struct job_action){.kind = JOB_TELL_START});
}

/* Once the first round has its minimum of nodes, it waits a while for more. */
static void transition_last_call(struct job *j)
{
	int enough = j->joined + j->spares >= j->min_nodes;

	if (enough == j->calling)
		return;
	j->calling = enough;
	if (enough)
		transition_act(j, (struct job_action){.kind = JOB_LAST_CALL,
					   .rank = j->last_call_ms});
	else
		transition_act(j,
			       (struct job_action){.kind = JOB_LAST_CALL_OFF});
}

void transition_start_or_wait(struct job *j)
{
	int first = j->state == JOB_GATHERING;

	if (j->joined && j->joined == (first ? j->max_nodes : j->members) &&
	    j->joined >= j->min_nodes) {
		if (!first && restarts_are_in_vain(j))
			transition_end(j);
		else
			transition_start(j);
		return;
	}
	if (first)
		transition_last_call(j);
	transition_send_state(j);
}

void transition_drop(struct job *j, struct job_node *n)
{
	join_drop(j, n);
	/* before the first round, spares wait for the last call */
	if (j->state != JOB_GATHERING)
		transition_fill_spares(j);
	transition_start_or_wait(j);
}

/* ---- restarts ----
 *
 * What the server concludes from them (docs/restarts.md): whether they make
 * progress, judged by the steps that workers report; and which node fails
 * repeatedly at the start, so that a spare must replace it. */

enum { START_MS = 60000 }; /* workers that report no steps have started after
			    * this time */

void restarts_begin(struct job *j)
{
	j->restarts.last = 0;
	j->restarts.known = 0;
	j->restarts.has_swapped = 0;
}

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

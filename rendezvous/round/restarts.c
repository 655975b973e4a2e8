/* restarts.c: whether restarts make progress, by the steps that workers report
 * (docs/restarts.md). Where they report none, nothing is concluded. */
#include <stdio.h>

#include "rendezvous/round/job_internal.h"

void restarts_begin(struct job *j)
{
	j->restarts.last = 0;
	j->restarts.known = 0;
}

void restarts_take_steps(struct job *j, uint64_t steps)
{
	j->restarts.known++;
	if (steps > j->restarts.last)
		j->restarts.last = steps;
}

int restarts_are_in_vain(struct job *j)
{
	struct job_restarts *r = &j->restarts;
	char who[40], text[160];

	if (r->last > r->best) {
		r->best = r->last;
		r->in_vain = 0;
		return 0;
	}
	/* a node that is gone may have gone further; and only failures count */
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

/* finished_jobs.c: a ring of the jobs that were freed last. */
#include "rendezvous/round/finished_jobs.h"

#include <stdlib.h>

void finished_jobs_add(struct finished_jobs *d, const char *id, uint32_t round,
	       const char *text)
{
	struct finished_job *job = &d->jobs[d->next % FINISHED_JOBS_MAX];
	struct finished_job fresh = {strdup(id), strdup(text), round};

	if (!fresh.id || !fresh.text) {
		free(fresh.id);
		free(fresh.text);
		return;
	}
	free(job->id);
	free(job->text);
	*job = fresh;
	d->next++;
}

/* The i-th newest entry, counted from 1, or NULL if it has another name. A name
 * may occur more than once. */
static const struct finished_job *
finished_jobs_nth(const struct finished_jobs *d, unsigned i, struct slice id)
{
	const struct finished_job *job =
		&d->jobs[(d->next - i) % FINISHED_JOBS_MAX];

	return job->id && strlen(job->id) == id.len &&
	       memcmp(job->id, id.data, id.len) == 0 ? job : NULL;
}

const char *finished_jobs_find(const struct finished_jobs *d, struct slice id,
			       uint32_t round)
{
	for (unsigned i = 1; i <= FINISHED_JOBS_MAX; i++) {
		const struct finished_job *job = finished_jobs_nth(d, i, id);

		if (job && job->round == round)
			return job->text;
	}
	return NULL;
}

uint32_t finished_jobs_next_round(const struct finished_jobs *d,
				  struct slice id)
{
	for (unsigned i = 1; i <= FINISHED_JOBS_MAX; i++) {
		const struct finished_job *job = finished_jobs_nth(d, i, id);

		if (job)
			return job->round + 1;
	}
	return 0;
}

void finished_jobs_release(struct finished_jobs *d)
{
	for (unsigned i = 0; i < FINISHED_JOBS_MAX; i++) {
		free(d->jobs[i].id);
		free(d->jobs[i].text);
	}
}

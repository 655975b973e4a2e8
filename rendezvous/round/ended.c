/* ended.c: a ring of what was freed last. */
#include "rendezvous/round/ended.h"

#include <stdlib.h>

void ended_add(struct ended *d, const char *id, uint32_t round,
	       const char *text)
{
	struct ended_job *job = &d->jobs[d->next % ENDED_MAX];
	struct ended_job fresh = {strdup(id), strdup(text), round};

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

const char *ended_find(const struct ended *d, struct slice id, uint32_t round)
{
	/* the newest first: a name may have been used again */
	for (unsigned i = 1; i <= ENDED_MAX; i++) {
		const struct ended_job *job =
			&d->jobs[(d->next - i) % ENDED_MAX];

		if (job->id && job->round == round &&
		    strlen(job->id) == id.len &&
		    memcmp(job->id, id.data, id.len) == 0)
			return job->text;
	}
	return NULL;
}

void ended_release(struct ended *d)
{
	for (unsigned i = 0; i < ENDED_MAX; i++) {
		free(d->jobs[i].id);
		free(d->jobs[i].text);
	}
}

/* finished_jobs.h: how the jobs ended that the server freed last, for workers
 * that come late. Pure and bounded: the oldest is forgotten first. */
#ifndef RENDEZVOUS_FINISHED_JOBS_H
#define RENDEZVOUS_FINISHED_JOBS_H

#include <stdint.h>

#include "base/buf.h"

enum { FINISHED_JOBS_MAX = 64 };

/* All zeroes at first. */
struct finished_jobs {
	struct finished_job {
		char *id; /* NULL: none yet */
		char *text;
		uint32_t round; /* its last */
	} jobs[FINISHED_JOBS_MAX];
	unsigned next;
};

/* Remembers a job; does nothing if memory is short. */
void finished_jobs_add(struct finished_jobs *d, const char *id, uint32_t round,
	       const char *text);
/* How that round ended, or NULL if unknown. Valid until the next
 * finished_jobs_add. */
const char *finished_jobs_find(const struct finished_jobs *d, struct slice id,
			       uint32_t round);
/* The first round for a new job of that name: higher than all rounds of the
 * last job of that name, whose nodes may still live. 0: none is known. */
uint32_t finished_jobs_next_round(const struct finished_jobs *d,
				  struct slice id);
void finished_jobs_release(struct finished_jobs *d);

#endif

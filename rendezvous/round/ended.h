/* ended.h: how the last jobs ended that the server has freed since, so that a
 * worker which comes late is still told why. Pure, and bounded: the oldest is
 * forgotten first. */
#ifndef RENDEZVOUS_ENDED_H
#define RENDEZVOUS_ENDED_H

#include <stdint.h>

#include "base/buf.h"

enum { ENDED_MAX = 64 };

/* All zeroes to begin with. */
struct ended {
	struct ended_job {
		char *id; /* NULL: none yet */
		char *text;
		uint32_t round; /* its last */
	} jobs[ENDED_MAX];
	unsigned next;
};

/* Remembers it; does nothing where memory ran out. */
void ended_add(struct ended *d, const char *id, uint32_t round,
	       const char *text);
/* How that round ended, or NULL: not known. Valid until the next ended_add. */
const char *ended_find(const struct ended *d, struct slice id, uint32_t round);
void ended_release(struct ended *d);

#endif

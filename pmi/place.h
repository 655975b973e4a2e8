/* place.h: the meeting place of ddpruns that an MPI launcher started, which
 * rank 0 sends to the others through the launcher. Pure: converts the record to
 * hex digits, which every launcher accepts, and back. */
#ifndef PMI_PLACE_H
#define PMI_PLACE_H

#include "base/sock.h"

enum {
	PLACES_MAX = 16,
	PLACE_JOB_MAX = 200,
	PLACE_KEY_SIZE = 32,
	PLACE_TEXT_MAX = 1000, /* PMI's values have 1024 bytes */
};

struct place {
	char job[PLACE_JOB_MAX]; /* the job's name */
	unsigned char key[PLACE_KEY_SIZE]; /* the job's secret */
	int n;			      /* places to try, in this order */
	struct endpoint at[PLACES_MAX];
	struct err why; /* code 0, or why rank 0 has none */
};

/* Writes to text[PLACE_TEXT_MAX] as many places as fit, at least one. */
void place_put(const struct place *p, char *text);
/* ERR_PROTOCOL if it does not parse. */
int place_get(struct place *p, const char *text, struct err *e);

#endif

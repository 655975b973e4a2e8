/* place.h: where those meet whom an MPI launcher has started: what rank 0 tells
 * the others by whatever that launcher offers. Pure: a record as text of hex
 * digits, which every launcher takes, and back. */
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
	char job[PLACE_JOB_MAX]; /* whose store it is */
	unsigned char key[PLACE_KEY_SIZE]; /* the secret of that job */
	int n;			      /* places to try, in this order */
	struct endpoint at[PLACES_MAX];
	struct err why; /* code 0, or why rank 0 has none */
};

/* Into text[PLACE_TEXT_MAX]: as many places as fit, at least one. */
void place_put(const struct place *p, char *text);
/* ERR_PROTOCOL if it does not parse. */
int place_get(struct place *p, const char *text, struct err *e);

#endif

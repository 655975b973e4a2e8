/* place.h: where the ranks of a world without a server meet: what rank 0 tells
 * the others by whatever its launcher offers. Pure: a record as text of hex
 * digits, which every launcher takes, and back. */
#ifndef SDK_PLACE_H
#define SDK_PLACE_H

#include "base/sock.h"

enum {
	DDP__PLACES_MAX = 16,
	DDP__PLACE_JOB_MAX = 200,
	DDP__PLACE_TEXT_MAX = 1000, /* PMI's values have 1024 bytes */
};

struct ddp__place {
	char job[DDP__PLACE_JOB_MAX]; /* whose store it is: its proof */
	int n;			      /* places to try, in this order */
	struct endpoint at[DDP__PLACES_MAX];
	struct err why; /* code 0, or why rank 0 has none */
};

/* Into text[DDP__PLACE_TEXT_MAX]: as many places as fit, at least one. */
void ddp__place_put(const struct ddp__place *p, char *text);
/* ERR_PROTOCOL if it does not parse. */
int ddp__place_get(struct ddp__place *p, const char *text, struct err *e);

#endif

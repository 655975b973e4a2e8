/* refusals.h: which of many refusals are worth a line: the first of an address,
 * then one a minute, and of all addresses together no more than some a minute,
 * so that nobody can fill a disk from outside. Pure. */
#ifndef RENDEZVOUS_REFUSALS_H
#define RENDEZVOUS_REFUSALS_H

#include <stdint.h>

enum {
	REFUSALS_KEPT = 16,
	REFUSALS_AGAIN_MS = 60000,
	REFUSALS_LINES = 20, /* in such a time */
	REFUSALS_ADDRESS_MAX = 64,
};

struct refusals {
	struct refusal {
		char address[REFUSALS_ADDRESS_MAX];
		uint64_t said_ms;
		unsigned more; /* that were not said since */
	} last[REFUSALS_KEPT];
	uint64_t began_ms; /* the minute that lines are counted in */
	unsigned lines;
	unsigned unsaid; /* of addresses that are not kept */
};

/* 1: it is to be said, and *more others were not; 0: it is counted. */
int refusals_say(struct refusals *r, const char *address, uint64_t now_ms,
		 unsigned *more);

#endif

/* log_limiter.h: which of many refusals are worth a line: the first of an
 * address, then one a minute, and of all addresses together no more than some a
 * minute, so that nobody can fill a disk from outside. Pure. */
#ifndef RENDEZVOUS_LOG_LIMITER_H
#define RENDEZVOUS_LOG_LIMITER_H

#include <stdint.h>

enum {
	LOG_LIMITER_KEPT = 16,
	LOG_LIMITER_AGAIN_MS = 60000,
	LOG_LIMITER_LINES = 20, /* in such a time */
	LOG_LIMITER_ADDRESS_MAX = 64,
};

struct log_limiter {
	struct refusal {
		char address[LOG_LIMITER_ADDRESS_MAX];
		uint64_t said_ms;
		unsigned more; /* that were not said since */
	} last[LOG_LIMITER_KEPT];
	uint64_t began_ms; /* the minute that lines are counted in */
	unsigned lines;
	unsigned unsaid; /* of addresses that are not kept */
};

/* 1: it is to be said, and *more others were not; 0: it is counted. */
int log_limiter_check(struct log_limiter *r, const char *address,
		      uint64_t now_ms, unsigned *more);

#endif

/* log_limiter.h: limits log lines about refused clients: the first from an
 * address, then one a minute, and LOG_LIMITER_LINES a minute from all
 * addresses, so that clients cannot fill the disk. Pure. */
#ifndef RENDEZVOUS_LOG_LIMITER_H
#define RENDEZVOUS_LOG_LIMITER_H

#include <stdint.h>

enum {
	LOG_LIMITER_KEPT = 16,
	LOG_LIMITER_AGAIN_MS = 60000,
	LOG_LIMITER_LINES = 20, /* in LOG_LIMITER_AGAIN_MS */
	LOG_LIMITER_ADDRESS_MAX = 64,
};

struct log_limiter {
	struct refusal {
		char address[LOG_LIMITER_ADDRESS_MAX];
		uint64_t logged_ms;
		unsigned more; /* not logged since */
	} last[LOG_LIMITER_KEPT];
	uint64_t began_ms; /* the minute that lines are counted in */
	unsigned lines;
	unsigned unlogged; /* not logged, of addresses that are not kept */
};

/* 1: log it, and that *more others were not logged. 0: do not log; it is
 * counted. */
int log_limiter_check(struct log_limiter *r, const char *address,
		      uint64_t now_ms, unsigned *more);

#endif

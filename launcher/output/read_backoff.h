/* read_backoff.h: how often to read workers that print little. A worker that
 * writes one line at a time would wake the agent for each line; a read that
 * waits a little finds many. Pure: the caller passes the time. */
#ifndef LAUNCHER_READ_BACKOFF_H
#define LAUNCHER_READ_BACKOFF_H

#include <stddef.h>
#include <stdint.h>

enum {
	BACKOFF_WINDOW_MS = 10,
	/* passes that find little, allowed in each window */
	BACKOFF_PASSES = 3,
	/* unused passes are saved up to this number and may be made at once, so
	 * that a burst of lines (all workers have started) is not delayed */
	BACKOFF_SAVED = 64,
	BACKOFF_LITTLE_BYTES = 8 << 10, /* from one stream */
};

/* All zero to begin with. */
struct read_backoff {
	uint64_t from_ms; /* when the window began */
	uint64_t made;    /* passes that time has not paid back yet */
};

/* Accounts a pass that read this many bytes from n streams at now_ms, which
 * never decreases. Returns the ms to wait before the next pass; 0: none. */
uint64_t read_backoff_ms(struct read_backoff *p, uint64_t now_ms, size_t n,
			 size_t bytes);

#endif

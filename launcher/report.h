/* report.h: the one page that says why the job died, as text.
 * Pure: a struct in, text out. */
#ifndef LAUNCHER_REPORT_H
#define LAUNCHER_REPORT_H

#include <stdint.h>

#include "base/buf.h"
#include "rendezvous/wire.h"

struct report {
	const char *job;
	const struct wire_end *end; /* what the server told all nodes */
	uint32_t world_size;
	uint32_t max_restarts;
	uint32_t attempt; /* from 0 */
};

/* Appends the page, every line with its newline, the cause in the first line.
 * Without a failed worker the first line is all there is. */
void report_put(struct buf *out, const struct report *r);

#endif

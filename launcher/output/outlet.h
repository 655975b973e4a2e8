/* outlet.h: what one worker's stdout or stderr is connected to. A stream that
 * nobody looks at as it comes IS its file: it costs the agent nothing, and
 * outlives it. All others are pipes that the agent reads. */
#ifndef LAUNCHER_OUTLET_H
#define LAUNCHER_OUTLET_H

#include "launcher/output/log_rules.h"
#include "launcher/output/logdir.h"

struct outlet {
	int child; /* what the worker gets */
	int pipe;  /* what we read; -1: nothing */
	int file;  /* what gets a copy of what we read; -1: nothing */
	int shown; /* what we read is for the console */
};

/* Who decides, for all workers of this node. */
struct outlet_rules {
	const struct output_options *options;
	const struct log_rules *log;
	struct logdir *dir;
};

/* Opens what is needed, close-on-exec. 0 or -errno (nothing is open then). */
int outlet_open(struct outlet *o, const struct outlet_rules *rules,
		uint32_t local_rank, uint32_t rank, int is_stderr,
		struct err *e);
/* What lines that match a filter of stdout, of stderr, are copied into, in this
 * round; -1: nothing. The caller's. */
void outlet_open_copies(const struct outlet_rules *rules, int copies[2]);
/* Closes what was not taken (set to -1). */
void outlet_close(struct outlet *o);

#endif

/* redirect.h: what one worker's stdout or stderr is connected to. A stream that
 * only goes to a file is that file: it costs the agent nothing, and works after
 * the agent's death. Every other stream is a pipe that the agent reads. */
#ifndef LAUNCHER_REDIRECT_H
#define LAUNCHER_REDIRECT_H

#include "launcher/output/log_rules.h"
#include "launcher/output/logdir.h"

struct redirect {
	int child; /* the worker's end */
	int pipe;  /* the end that we read; -1: none */
	int file;  /* gets a copy of what we read; -1: none */
	int shown; /* the console shows what we read */
};

/* The options, for all workers of this node. */
struct redirect_rules {
	const struct output_options *options;
	const struct log_rules *log;
	struct logdir *dir;
};

/* Opens what is needed, close-on-exec. 0 or -errno (nothing is open then). */
int redirect_open(struct redirect *o, const struct redirect_rules *rules,
		  uint32_t local_rank, uint32_t rank, int is_stderr,
		  struct err *e);
/* Opens this round's files for the lines that match the filters of stdout and
 * of stderr; -1: none. The caller closes them. */
void redirect_open_copies(const struct redirect_rules *rules, int copies[2]);
/* Closes the descriptors that the caller has not taken (set to -1). */
void redirect_close(struct redirect *o);

#endif

/* redirect.h: what one worker's stdout or stderr is connected to. A stream that
 * only goes to a file is that file: it costs the agent nothing, and works after
 * the agent's death. Every other stream is a pipe that the agent reads; so is
 * one to a file on a server, so that no worker waits for the server. Also
 * parses --redirects and --tee, which choose the files. */
#ifndef LAUNCHER_REDIRECT_H
#define LAUNCHER_REDIRECT_H

#include <stdint.h>

#include "base/error.h"
#include "launcher/output/log_rules.h"
#include "launcher/output/logdir.h"

struct redirect {
	int child; /* the worker's end */
	int pipe;  /* the end that we read; -1: none */
	struct log_writer file; /* gets a copy of what we read */
	int shown; /* the console shows what we read */
};

#define REDIRECT_NONE ((struct redirect){-1, -1, {-1, NULL}, 0})

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
 * of stderr, or none. The caller closes them. */
void redirect_open_copies(const struct redirect_rules *rules,
			  struct log_writer copies[2]);
/* Closes the descriptors that the caller has not taken (set to -1). */
void redirect_close(struct redirect *o);

/* ---- --redirects and --tee ----
 *
 * --redirects and --tee as users write them: one mask for all local ranks ("3")
 * or one for each ("0:1,12:3"; other ranks have 0). Pure; the text itself is
 * the map, so there is nothing to free. */

enum { STD_NONE = 0, STD_OUT = 1, STD_ERR = 2, STD_BOTH = 3 };

/* 0 or ERR_USAGE. what is the option's name. Each rank may be named once and
 * must be below nproc. */
int std_map_check(const char *text, uint32_t nproc, const char *what,
		  struct err *e);

/* The mask of a local rank; text has passed the check. */
int std_map_of(const char *text, uint32_t local_rank);

/* 1 if no rank has a bit set. */
int std_map_is_empty(const char *text);

#endif

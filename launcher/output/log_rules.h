/* log_rules.h: the console's options, parsed: which workers' lines are shown,
 * with which prefix, and which lines are copied to files. Pure. */
#ifndef LAUNCHER_LOG_RULES_H
#define LAUNCHER_LOG_RULES_H

#include "base/buf.h"
#include "base/error.h"
#include "launcher/output/output_options.h"
#include "launcher/output/rank_list.h"

/* A list of strings; a line matches if it contains one of them. All zero: no
 * strings, matches nothing. */
struct line_filter {
	char *text; /* the words point into it */
	struct slice *words;
	size_t n;
};

/* text: strings separated by commas; ",," stands for a comma in a string. NULL
 * and "" are the empty list. ERR_USAGE if there are only commas (what is the
 * option's name), or -ENOMEM. */
int line_filter_init(struct line_filter *f, const char *text, const char *what,
		     struct err *e);
void line_filter_release(struct line_filter *f);

int line_filter_matches(const struct line_filter *f, struct slice line);

struct log_rules {
	struct rank_list ranks, local_ranks;
	struct line_filter copied[2]; /* stdout's, stderr's */
	const char *prefix; /* the template */
	int some_ranks, some_local_ranks; /* whether the user gave the lists */
	int collapse;
};

/* Checks the output options for a node with nproc workers. 0 or ERR_USAGE,
 * which names the option. */
int log_rules_check(const struct output_options *o, uint32_t nproc,
		    struct err *e);

/* o must outlive r. 0, ERR_USAGE, which names the option, or -ENOMEM; after an
 * error r needs no release. */
int log_rules_init(struct log_rules *r, const struct output_options *o,
		   struct err *e);
void log_rules_release(struct log_rules *r);

/* 1 if --redirects and --tee send this stream of the worker to a file, or to
 * the console (which may still hide the rank). o has passed the check. */
int log_rules_to_file(const struct output_options *o, uint32_t local_rank,
		      int is_stderr);
int log_rules_to_console(const struct output_options *o, uint32_t local_rank,
			 int is_stderr);

/* 1 if the console shows this worker's lines. */
int log_rules_shows(const struct log_rules *r, uint32_t local_rank,
		    uint32_t rank);
/* The same, judged by the local rank alone. */
int log_rules_shows_local(const struct log_rules *r, uint32_t local_rank);

#endif

/* log_rules.h: which workers' lines are shown, with what before them, and
 * which are copied: the options of the console, understood. Pure. */
#ifndef LAUNCHER_LOG_RULES_H
#define LAUNCHER_LOG_RULES_H

#include "launcher/output/line_filter.h"
#include "launcher/output/output_options.h"
#include "launcher/output/rank_list.h"

struct log_rules {
	struct rank_list ranks, local_ranks;
	struct line_filter copied[2]; /* of stdout, of stderr */
	const char *prefix; /* the template */
	int some_ranks, some_local_ranks; /* the lists were given */
	int collapse;
};

/* Whether all that the user said of logs makes sense, for nproc workers on
 * this node: ERR_USAGE that names the option. */
int log_rules_check(const struct output_options *o, uint32_t nproc,
		    struct err *e);

/* o must outlive r. ERR_USAGE that names the option, or -ENOMEM; r needs no
 * release then. */
int log_rules_init(struct log_rules *r, const struct output_options *o,
		   struct err *e);
void log_rules_release(struct log_rules *r);

/* --redirects and --tee of one of a worker's streams: 1 if it is for a file,
 * and if it is for the console (where these ranks are shown); c has passed the
 * check. */
int log_rules_to_file(const struct output_options *o, uint32_t local_rank,
		      int is_stderr);
int log_rules_to_console(const struct output_options *o, uint32_t local_rank,
			 int is_stderr);

/* 1 if this worker's lines are for the console. */
int log_rules_shows(const struct log_rules *r, uint32_t local_rank,
		    uint32_t rank);
/* As far as that depends on its local rank. */
int log_rules_shows_local(const struct log_rules *r, uint32_t local_rank);

#endif

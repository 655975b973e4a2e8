/* failure_options.h: what the failure page needs to know of the job.
 * launcher/config fills it from the command line. */
#ifndef LAUNCHER_FAILURE_OPTIONS_H
#define LAUNCHER_FAILURE_OPTIONS_H

#include "launcher/env/launch_env.h"
#include "launcher/plan/roles.h"

struct failure_options {
	const struct launch_env *env; /* the launcher that started us */
	const char *job; /* borrowed */
	uint32_t max_nodes, nproc, max_restarts;
	const struct roles *roles; /* several programs; NULL: one */
	int has_log_dir; /* the workers' output is kept in files */
	int no_crash_stacks;
};

#endif

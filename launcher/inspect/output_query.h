/* output_query.h: asks a job's rendezvous server for the last lines of one
 * rank's output, wherever the rank runs. Blocks, with a loop of its own. */
#ifndef LAUNCHER_OUTPUT_QUERY_H
#define LAUNCHER_OUTPUT_QUERY_H

#include "launcher/inspect/job_query.h"

/* job: a result of the same query. At most `lines` lines of each stream.
 * 0 if the agent or the server answered: o->text may then say what is missing.
 * Otherwise the server cannot be reached, or refuses: there is no such rank.
 * Release o in any case. */
int output_query_run(struct job_output *o, const struct job_query *q,
		     const struct job_status *job, uint32_t rank,
		     uint32_t lines, struct err *e);

#endif

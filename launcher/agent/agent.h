/* agent.h: runs a job on this node: joins it, starts the workers, stops them,
 * and joins again or leaves. The server decides what happens to the job; the
 * agent decides what happens on this node, in one state table. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

#include "launcher/agent/agent_options.h"
#include "launcher/plan/plan.h"

/* Why this node can run no worker, and the exit code for it. */
struct agent_unable {
	struct err why;
	int exit_code;
};

/* How the job was asked to stop, if it ended because of that. */
struct agent_ended {
	uint8_t level; /* wire.h's; 0: it ended for another reason */
	int warned;    /* the first request warned of the time limit */
};

/* Runs the job to its end and returns the exit code. parts is NULL if this node
 * cannot run the workers: it then joins only to report why (unable) to the
 * other nodes. open_files is the workers' soft limit, 0 to keep their own. */
int agent_run(const struct agent_options *options,
	      const struct plan_parts *parts, const struct agent_unable *unable,
	      uint64_t open_files, struct agent_ended *ended);

#endif

/* agent.h: the life of a job on this node, as a state machine: join, run the
 * workers, stop them, join again or leave. The one place where what happens on
 * this node is decided; what happens to the job is decided by the server. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

#include "launcher/config/config.h"
#include "launcher/plan/plan.h"

/* Why this node can run no worker, and what ddprun exits with for it. */
struct agent_unable {
	struct err why;
	int exit_code;
};

/* How a job that ended as it was told to stop was told (wire.h's levels); 0: it
 * ended in another way. */
struct agent_ended {
	uint8_t level;
	int warned; /* of the end of its time, at first */
};

/* Runs the job to its end and returns the exit code. parts is NULL where this
 * node cannot run them: then it joins all the same, only to tell the others why
 * (unable). open_files: the soft limit that workers get, 0 to leave theirs
 * alone. */
int agent_run(const struct config *config, const struct plan_parts *parts,
	      const struct agent_unable *unable, uint64_t open_files,
	      struct agent_ended *ended);

#endif

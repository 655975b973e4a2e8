/* agent.h: the life of a job on this node, as a state machine: join, run the
 * workers, stop them, join again or leave. The one place where what happens on
 * this node is decided; what happens to the job is decided by the server. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

#include <stdio.h>

#include "launcher/config.h"
#include "launcher/plan.h"

/* Runs the job to its end and returns the exit code. open_files: the soft limit
 * that workers get, 0 to leave theirs alone. */
int agent_run(const struct config *config, const struct plan_parts *parts,
	      uint64_t open_files);

/* The table of states and events, for people. */
void agent_print_states(FILE *f);

#endif

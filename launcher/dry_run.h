/* dry_run.h: --dry-run: prints what each worker of this node would be started
 * with, from the same plan as a run. Starts nothing, connects nowhere, makes no
 * file. */
#ifndef LAUNCHER_DRY_RUN_H
#define LAUNCHER_DRY_RUN_H

#include "launcher/agent/agent_options.h"
#include "launcher/plan/plan.h"

/* Borrows everything. */
struct dry_run_options {
	const struct agent_options *agent; /* what a run would get */
	const char *wrap_ranks; /* --wrap-ranks, or NULL */
	uint32_t world_size;    /* 0: not known */
	int draws_job;          /* each run has another job name */
};

/* Prints to stdout, and marks what the rendezvous will decide. -ENOMEM, or the
 * error of stdout. */
int dry_run(const struct dry_run_options *o, const struct plan_parts *parts,
	    struct err *e);

#endif

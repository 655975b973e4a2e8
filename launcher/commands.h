/* commands.h: what ddprun.c does instead of starting a job: --dry-run, and the
 * commands that install links. */
#ifndef LAUNCHER_COMMANDS_H
#define LAUNCHER_COMMANDS_H

#include "launcher/agent/agent.h"
#include "launcher/plan/plan.h"

/* ---- dry_run.c ----
 *
 * --dry-run: prints what each worker of this node would be started with, from
 * the same plan as a run. Starts nothing, connects nowhere, makes no file. */

/* Borrows everything. */
struct dry_run_options {
	const struct agent_options *agent; /* what a run would get */
	const char *wrap_ranks;		   /* --wrap-ranks, or NULL */
	uint32_t world_size;		   /* 0: not known */
	int draws_job;			   /* each run has another job name */
};

/* Prints to stdout, and marks what the rendezvous will decide. -ENOMEM, or the
 * error of stdout. */
int dry_run(const struct dry_run_options *o, const struct plan_parts *parts,
	    struct err *e);

/* ---- link_command.c ----
 *
 * `ddprun install-mpiexec DIR` and `ddprun install-torchrun DIR`: links of
 * those names that are ddprun. */

/* For --version: a line for a Python whose torch.distributed.run is this ddprun
 * (`python -m ddprun install-torchrun`), if that is known. */
void link_command_print_python(void);

/* argv[0]: install-mpiexec or install-torchrun. Makes the folder and the links;
 * replaces those to a ddprun, and no other file. Prints a line for each.
 * Returns the exit code. */
int link_command_main(int argc, char **argv);

#endif

/* dry_run.h: --dry-run: prints what each worker of this node would be started
 * with, from the same plan as a run. Starts nothing, connects nowhere, makes no
 * file. */
#ifndef LAUNCHER_DRY_RUN_H
#define LAUNCHER_DRY_RUN_H

#include "launcher/config/config.h"
#include "launcher/plan/plan.h"

/* Prints to stdout, and marks what the rendezvous will decide. -ENOMEM, or the
 * error of stdout. */
int dry_run(const struct config *c, const struct plan_parts *parts,
	    struct err *e);

#endif

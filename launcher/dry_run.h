/* dry_run.h: --dry-run: what each worker of this node would be started with,
 * from the very plan that a run follows. Starts nothing, connects nowhere,
 * makes no file. */
#ifndef LAUNCHER_DRY_RUN_H
#define LAUNCHER_DRY_RUN_H

#include "launcher/config/config.h"
#include "launcher/plan/plan.h"

/* For people, to stdout. What only the rendezvous decides is named as that.
 * -ENOMEM, or stdout's error. */
int dry_run(const struct config *c, const struct plan_parts *parts,
	    struct err *e);

#endif

/* preflight.h: checks this node before anything starts: limits, the program,
 * its wrapper, the workers' placement. */
#ifndef LAUNCHER_PREFLIGHT_H
#define LAUNCHER_PREFLIGHT_H

#include "launcher/config/config.h"
#include "launcher/plan/plan.h"

/* 0, or ddprun's exit code; e says why. open_files: as config_check_limits. */
int preflight_run(struct plan_parts *parts, const struct config *c,
		  uint64_t *open_files, struct err *e);
void preflight_release(struct plan_parts *parts);

#endif

/* prepare.h: all that a run would find wrong on this node before it starts
 * anything: limits, the program, its wrapper, where workers are to run. */
#ifndef LAUNCHER_PREPARE_H
#define LAUNCHER_PREPARE_H

#include "launcher/config/config.h"
#include "launcher/plan/plan.h"

/* 0, or what ddprun exits with; e's text says why. open_files: as
 * config_check_limits. */
int prepare(struct plan_parts *parts, const struct config *c,
	    uint64_t *open_files, struct err *e);
void prepare_release(struct plan_parts *parts);

#endif

/* preflight.h: checks this node before anything starts: limits, the program,
 * its wrapper, the workers' placement. */
#ifndef LAUNCHER_PREFLIGHT_H
#define LAUNCHER_PREFLIGHT_H

#include "launcher/membership/rdzv_options.h"
#include "launcher/plan/plan.h"

struct config;

/* 0, or ddprun's exit code; e says why. open_files: the soft limit of open
 * files, as preflight_check_limits sets it. */
int preflight_run(struct plan_parts *parts, const struct config *c,
		  uint64_t *open_files, struct err *e);
void preflight_release(struct plan_parts *parts);

/* Raises the soft limit of open files as far as nproc workers need it. *soft is
 * the old limit, 0 if it was not changed. -EMFILE or -EAGAIN, naming the limit.
 */
int preflight_check_limits(uint32_t nproc, uint64_t *soft, struct err *e);

/* ---- a host of `ddprun -H`, on which the agent starts later ---- */

struct preflight_trial {
	uint32_t nproc;
	struct rdzv_options rdzv; /* points into config */
	struct config *config;    /* private */
};

/* Parses the agent's command line and checks it on this host, as preflight_run;
 * limits stay as they are. 0, or ddprun's exit code; e says why. argv and the
 * environment must outlive t, and the caller releases t in any case. */
int preflight_try(struct preflight_trial *t, int argc, char **argv,
		  struct err *e);
void preflight_end_trial(struct preflight_trial *t);

#endif

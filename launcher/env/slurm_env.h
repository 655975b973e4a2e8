/* slurm_env.h: what only srun_exec.c and requeue.c, which act for Slurm's users
 * at Slurm itself, need of Slurm's row. Everybody else reads launch_env.h. */
#ifndef LAUNCHER_SLURM_ENV_H
#define LAUNCHER_SLURM_ENV_H

#include "launcher/env/launch_env.h"

/* What its variables say; place ALLOCATION_NONE: it did not start us. */
const struct allocation *slurm_env_allocation(const struct launch_env *env);

/* Puts a secret of the step's own into the environment of the srun that we
 * become: Slurm sends it to the nodes with the rest of the environment, and
 * take_auth takes it out there. -errno. */
int slurm_env_put_secret(struct err *e);

#endif

/* slurm_env.h: Slurm's row for srun_exec.c and requeue.c, which call Slurm's
 * commands. All other code uses launch_env.h. */
#ifndef LAUNCHER_SLURM_ENV_H
#define LAUNCHER_SLURM_ENV_H

#include "launcher/env/launch_env.h"

/* What Slurm's variables say; place ALLOCATION_NONE: Slurm did not start us. */
const struct allocation *slurm_env_allocation(const struct launch_env *env);

/* Puts a new secret for the step into our environment, before we execute srun.
 * Slurm sends it to the nodes with the rest of the environment, and take_auth
 * takes it out there. 0 or -errno. */
int slurm_env_put_secret(struct err *e);

#endif

/* launch_env_internal.h: the rows of launch_env.c's table, for this room. */
#ifndef LAUNCHER_LAUNCH_ENV_INTERNAL_H
#define LAUNCHER_LAUNCH_ENV_INTERNAL_H

#include "launcher/env/launch_env.h"

extern const struct launch_source ssh_env;     /* our own ddprun, over ssh */
extern const struct launch_source slurm_env;   /* srun, sbatch, salloc */
extern const struct launch_source openmpi_env; /* mpirun and prterun: PMIx */
extern const struct launch_source mpich_env;   /* mpiexec: PMI-1 */
extern const struct launch_source pbs_env, lsf_env; /* lists of hosts */
extern const struct launch_source mpi_operator_env; /* the same, in a pod */
extern const struct launch_source flux_env;
extern const struct launch_source cloud_env; /* one ddprun in a container */

/* 1 if any row's marks, or those of our own workers, are set. */
int launch_env_is_marked(void);

/* ---- slurm_env.c: for srun_exec.c and requeue.c, which run Slurm's commands
 * ---- */

/* What Slurm's variables say; place ALLOCATION_NONE: Slurm did not start us. */
const struct allocation *slurm_env_allocation(const struct launch_env *env);

/* Puts a new secret for the step into our environment, before we execute srun.
 * Slurm sends it to the nodes with the rest of the environment, and take_auth
 * takes it out there. 0 or -errno. */
int slurm_env_put_secret(struct err *e);

#endif

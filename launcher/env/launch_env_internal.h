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

#endif

/* launch_env_internal.h: the rows of launch_env.c's table, and what they share.
 */
#ifndef LAUNCHER_LAUNCH_ENV_INTERNAL_H
#define LAUNCHER_LAUNCH_ENV_INTERNAL_H

#include "launcher/env/launch_env.h"
#include "pmi/pmix.h"

/* ---- mpi_bootstrap.c ----
 *
 * Tells the ddpruns that an MPI launcher started, one per node, where to meet:
 * the first one informs the others through the launcher, by PMIx or PMI-1.
 * Blocks, so it runs before the loop. A child process speaks to the launcher
 * and then exits, so that this process has no PMIx thread. */

/* Asks PMIx about this process; errors as in pmix.h: -errno, ERR_REMOTE,
 * ERR_USAGE. The child then waits for mpi_bootstrap or mpi_bootstrap_end. */
int mpi_bootstrap_ask_pmix(struct pmix_self *self, struct err *e);
void mpi_bootstrap_end(void);

/* See launch_env_exchange. */
int mpi_bootstrap(const struct mpirun *m, const struct launch_offer *o,
		  struct bootstrap_record *out, struct err *e);

/* ---- the sources ---- */

extern const struct launch_source ssh_env;     /* our own ddprun, over ssh */
extern const struct launch_source slurm_env;   /* srun, sbatch, salloc */
extern const struct launch_source openmpi_env; /* mpirun and prterun: PMIx */
extern const struct launch_source mpich_env;   /* mpiexec: PMI-1 */
extern const struct launch_source pbs_env, lsf_env; /* lists of hosts */
extern const struct launch_source mpi_operator_env; /* the same, in a pod */
extern const struct launch_source flux_env;
extern const struct launch_source cloud_env; /* one ddprun in a container */

/* getenv, for the functions that read a launcher's variables. */
const char *launch_env_getenv(const char *name);

/* 1 if any row's marks, or those of our own workers, are set. */
int launch_env_is_marked(void);

/* ---- slurm_env.c ----
 *
 * For srun_exec.c and requeue.c, which run Slurm's commands. */

/* What Slurm's variables say; place ALLOCATION_NONE: Slurm did not start us. */
const struct allocation *slurm_env_allocation(const struct launch_env *env);

/* Puts a new secret for the step into our environment, before we execute srun.
 * Slurm sends it to the nodes with the rest of the environment, and take_auth
 * takes it out there. 0 or -errno. */
int slurm_env_put_secret(struct err *e);

#endif

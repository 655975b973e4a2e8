/* mpi_bootstrap.h: tells the ddpruns that an MPI launcher started, one per
 * node, where to meet: the first one informs the others through the launcher,
 * by PMIx or PMI-1. Blocks, so it runs before the loop. A child process speaks
 * to the launcher and then exits, so that this process has no PMIx thread. */
#ifndef LAUNCHER_MPI_BOOTSTRAP_H
#define LAUNCHER_MPI_BOOTSTRAP_H

#include "launcher/env/launch_env.h"
#include "pmi/pmix.h"

/* Asks PMIx about this process; errors as in pmix.h: -errno, ERR_REMOTE,
 * ERR_USAGE. The child then waits for mpi_bootstrap or mpi_bootstrap_end. */
int mpi_bootstrap_ask_pmix(struct pmix_self *self, struct err *e);
void mpi_bootstrap_end(void);

/* See launch_env_exchange. */
int mpi_bootstrap(const struct mpirun *m, const struct launch_offer *o,
		  struct bootstrap_record *out, struct err *e);

#endif

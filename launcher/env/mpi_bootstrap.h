/* mpi_bootstrap.h: how the ddpruns that an MPI launcher started, one a node,
 * learn where they meet: the first one tells the others through that launcher,
 * by PMIx or PMI-1. Before the loop runs: it blocks. A child, which ends here,
 * speaks to the launcher: this process gets no thread of PMIx's. */
#ifndef LAUNCHER_MPI_BOOTSTRAP_H
#define LAUNCHER_MPI_BOOTSTRAP_H

#include "launcher/env/launch_env.h"
#include "pmi/pmix.h"

/* What PMIx says of this process; -errno, ERR_REMOTE, ERR_USAGE as pmix.h. The
 * child waits for mpi_bootstrap, or for _end. */
int mpi_bootstrap_ask_pmix(struct pmix_self *self, struct err *e);
void mpi_bootstrap_end(void);

/* See launch_env_exchange. */
int mpi_bootstrap(const struct mpirun *m, const struct launch_offer *o,
		  struct place *out, struct err *e);

#endif

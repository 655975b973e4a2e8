/* inferred_mpi.h: what the user did not say and the MPI launcher does that
 * started a ddprun on each node: as inferred.h, whose word under Slurm comes
 * first. It fills struct config; whatever was given stays. */
#ifndef LAUNCHER_INFERRED_MPI_H
#define LAUNCHER_INFERRED_MPI_H

#include "launcher/config/config.h"

/* c->mpirun, and --nnodes where it is not given. Not with --standalone, nor
 * where the endpoint and the number of nodes are given: that is one command a
 * node, by hand; nor in a worker of ddprun's. ERR_USAGE as in pmi/mpirun.h.
 *
 * mpirun binds one process a node to one core, and its workers would share it:
 * where nobody asked for that, this process may use all CPUs again. */
int inferred_mpi_init(struct config *c, struct err *e);

/* With --nnodes decided: what this many nodes cannot be, and the node rank. */
int inferred_mpi_nodes(struct config *c, struct err *e);

/* 1 where the nodes meet as meet.h has it, which is not known before; 0 where
 * something else says it. */
int inferred_mpi_endpoint(struct config *c);

/* When they have met: one line of what was inferred, by the first. */
void inferred_mpi_say(const struct config *c);

#endif

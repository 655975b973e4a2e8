/* mpirun.h: what a ddprun concludes from the variables of the MPI launcher that
 * started it, one on each node: OpenMPI's mpirun, MPICH's mpiexec (hydra) and
 * its kin, prterun. Pure. */
#ifndef PMI_MPIRUN_H
#define PMI_MPIRUN_H

#include <stdint.h>

#include "base/error.h"

enum mpirun_kind {
	MPIRUN_NONE,
	MPIRUN_OPENMPI, /* says all in variables, and speaks PMIx */
	MPIRUN_PMIX,    /* says the rank; the rest is asked of PMIx */
	MPIRUN_PMI,     /* hydra: variables, and PMI-1 on PMI_FD */
};

struct mpirun {
	enum mpirun_kind kind;
	uint32_t rank, size; /* of this ddprun; size 0: to be asked */
	uint32_t here;       /* ddpruns on this node; 0: not said */
	int fd;              /* PMI_FD; -1: not said */
	int bound; /* OpenMPI bound it to some CPUs, and was not told to */
};

/* A variable's value, NULL where it is not set. */
typedef const char *mpirun_get(const char *name);

/* ERR_USAGE names the variable that is missing or wrong, and what to do. */
int mpirun_read(struct mpirun *m, mpirun_get *get, struct err *e);

/* Of a size and a number here that are known: ERR_USAGE for several ddpruns on
 * a node, with the command line that starts one. */
int mpirun_check(const struct mpirun *m, struct err *e);

/* For people: "mpirun", "mpiexec". */
const char *mpirun_name(const struct mpirun *m);
/* Where this ddprun's rank is: "$OMPI_COMM_WORLD_RANK". */
const char *mpirun_rank_name(const struct mpirun *m);

/* 1 for a variable ("NAME" or "NAME=value") by which a launcher tells one
 * process that it is a rank of its own: a process that has been started by such
 * a rank is none. What users set themselves (OMPI_MCA_btl, PMIX_MCA_ptl) is not
 * among them. */
int mpirun_is_rank_variable(const char *var);

#endif

/* mpirun.h: reads the variables of the MPI launcher that started this ddprun,
 * one on each node: OpenMPI's mpirun and prterun, MPICH's mpiexec (hydra) and
 * its relatives. Pure. */
#ifndef PMI_MPIRUN_H
#define PMI_MPIRUN_H

#include <stdint.h>

#include "base/error.h"

enum mpirun_kind {
	MPIRUN_NONE,
	MPIRUN_OPENMPI, /* sets all variables, and speaks PMIx */
	MPIRUN_PMIX,    /* sets the rank; we ask PMIx for the rest */
	MPIRUN_PMI,     /* hydra: variables, and PMI-1 on PMI_FD */
};

struct mpirun {
	enum mpirun_kind kind;
	uint32_t rank, size; /* this ddprun's rank; size 0: ask PMIx */
	uint32_t here;       /* ddpruns on this node; 0: unknown */
	int fd;              /* PMI_FD; -1: not set */
	int bound; /* OpenMPI bound it to some CPUs by default */
};

/* A variable's value; NULL if it is not set. */
typedef const char *mpirun_get(const char *name);

/* ERR_USAGE names the variable that is missing or wrong, and what to do. */
int mpirun_read(struct mpirun *m, mpirun_get *get, struct err *e);

/* Call it once size and here are known: ERR_USAGE if a node has several
 * ddpruns; the text has the command line that starts one. */
int mpirun_check(const struct mpirun *m, struct err *e);

/* The launcher's name for messages: "mpirun", "mpiexec". */
const char *mpirun_name(const struct mpirun *m);
/* The variable of this ddprun's rank: "$OMPI_COMM_WORLD_RANK". */
const char *mpirun_rank_name(const struct mpirun *m);

/* 1 for a variable ("NAME" or "NAME=value") that marks a process as the
 * launcher's rank; the processes that a rank starts are not ranks and must not
 * inherit it. 0 for variables that users set themselves (OMPI_MCA_btl,
 * PMIX_MCA_ptl). */
int mpirun_is_rank_variable(const char *var);

#endif

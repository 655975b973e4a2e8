/* mpi_words.h: the options of mpirun (Open MPI) and hydra (MPICH, Intel MPI),
 * as ddprun's own words: -np 4 becomes --world-size=4. An option that means
 * something else here, or nothing, is an error that names ours. Reads no file;
 * changes nothing until mpi_words_apply. */
#ifndef LAUNCHER_MPI_WORDS_H
#define LAUNCHER_MPI_WORDS_H

#include "base/error.h"

struct mpi_words {
	int argc;
	char **argv; /* ddprun's; ends with NULL */
	char **vars; /* NAME=VALUE of -x, -env and others; ends with NULL */
	char *is_own; /* for each: it concerns only one of several programs, not
		       * the job */
	const char *dir; /* -wdir, or NULL */
	/* private */
	int nvars;
	char **made; /* words that are ours to free */
	int nmade;
	int is_mpiexec, has_number, has_mpi, is_python;
};

/* Whether ddprun was called as mpiexec or mpirun. */
int mpi_words_is_mpiexec(const char *name);

/* Reads the options of argv up to the program. Called as mpiexec, lines have no
 * prefix unless -l or --tag-output asks for one, "--" after the program is the
 * program's, -n is required, and a program without MPI causes a warning.
 *
 * ERR_USAGE or -ENOMEM; call mpi_words_release after an error as well. argv
 * must outlive w. */
int mpi_words_init(struct mpi_words *w, int argc, char **argv, struct err *e);

/* Sets the variables, and changes to -wdir. ERR_USAGE or -ENOMEM. */
int mpi_words_apply(const struct mpi_words *w, struct err *e);

void mpi_words_release(struct mpi_words *w);

#endif

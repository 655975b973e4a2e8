/* mpi_word.h: the table of mpirun's (Open MPI) and hydra's (MPICH, Intel MPI)
 * options: what each is here. */
#ifndef LAUNCHER_MPI_WORD_H
#define LAUNCHER_MPI_WORD_H

enum mpi_word_kind {
	MPI_SAME,    /* the value is that of our option */
	MPI_PLACE,   /* the same, and it is a path */
	MPI_WORD,    /* `ours` replaces it */
	MPI_NOTHING, /* ddprun does so anyway */
	MPI_EXPORT,  /* NAME or NAME=VALUE */
	MPI_SET,     /* NAME VALUE or NAME=VALUE */
	MPI_SET_ALL, /* the same, for all programs */
	MPI_MCA,     /* a parameter of Open MPI: NAME VALUE */
	MPI_FOLDER,
	MPI_OUTPUT,
	MPI_BIND,
	MPI_MAP,
	MPI_REFUSED, /* ours: what to write instead */
};

struct mpi_word {
	const char *name;
	int forms; /* with one dash, with two, only as mpiexec */
	enum mpi_word_kind kind;
	const char *ours;
};

/* The option that the word is, or NULL. */
const struct mpi_word *mpi_word_find(const char *word, int is_mpiexec);

#endif

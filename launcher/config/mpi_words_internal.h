/* mpi_words_internal.h: the parts of mpi_words.c: the table of options, and the
 * programs of a command line. */
#ifndef LAUNCHER_MPI_WORDS_INTERNAL_H
#define LAUNCHER_MPI_WORDS_INTERNAL_H

#include "base/buf.h"
#include "base/error.h"

/* ---- mpi_word.c ----
 *
 * The table of mpirun's (Open MPI) and hydra's (MPICH, Intel MPI) options: what
 * each is here. */

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

/* ---- program_parts.c ----
 *
 * A command line of several programs, "-n 4 ./learner : -n 8 ./actor", as the
 * text of one --multi-prog (roles.h). Pure. */

/* Whether words, a program and what follows it, have a second program. Under
 * the name mpiexec each ":" begins one, else those that an option follows. */
int program_parts_are_several(char *const *words, int is_mpiexec);

/* Whether the part of the command line that begins here ends here. */
int program_parts_is_end(char *const *word, int is_mpiexec);

/* An option of one program, not of the whole job. */
int program_parts_owns(const char *name);

struct program_part {
	char **options; /* noptions words: the launcher's name, then those that
			 * program_parts_owns, as --name or --name=value */
	int noptions;
	char *const *vars; /* nvars of NAME=VALUE */
	int nvars;
	char *const *words; /* the program and its arguments, nwords */
	int nwords;
};

/* Appends the line of a part to text. *next is its first rank, and becomes that
 * of the next part. ERR_USAGE or -ENOMEM. */
int program_parts_put(struct buf *text, const struct program_part *part,
		      uint32_t *next, struct err *e);

#endif

/* mpi_words.h: the options of mpirun (Open MPI) and hydra (MPICH, Intel MPI),
 * as ddprun's own words: -np 4 becomes --world-size=4. An option that means
 * something else here, or nothing, is an error that names ours. Reads no file;
 * changes nothing until mpi_words_apply. */
#ifndef LAUNCHER_MPI_WORDS_H
#define LAUNCHER_MPI_WORDS_H

#include "base/buf.h"
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

/* ---- config_programs.c ----
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

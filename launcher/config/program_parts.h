/* program_parts.h: a command line of several programs, "-n 4 ./learner : -n 8
 * ./actor", as the text of one --multi-prog (roles.h). Pure. */
#ifndef LAUNCHER_PROGRAM_PARTS_H
#define LAUNCHER_PROGRAM_PARTS_H

#include "base/buf.h"
#include "base/error.h"

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

/* program.h: what the workers run: finds it, and makes its argument list.
 * Looks at files only; starts nothing. */
#ifndef LAUNCHER_PROGRAM_H
#define LAUNCHER_PROGRAM_H

#include "base/error.h"

struct program {
	char *path;  /* for execve */
	char **argv; /* ends with NULL; its words are borrowed but for path */
};

/* words: the program and its arguments, ending with NULL. A .py file is run by
 * $PYTHON_EXEC or python3, with -u; anything else, and everything with
 * no_python, is executed: looked up in $PATH where it has no slash. -ENOENT or
 * -EACCES, naming the file. */
int program_find(struct program *p, char **words, int no_python, struct err *e);
void program_release(struct program *p);

#endif

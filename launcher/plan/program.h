/* program.h: what the workers run: finds it, and makes its argument list.
 * Looks at files only; starts nothing. */
#ifndef LAUNCHER_PROGRAM_H
#define LAUNCHER_PROGRAM_H

#include "base/error.h"

struct program {
	char *path;  /* for execve */
	char **argv; /* ends with NULL; its words are borrowed but for path */
	int nargs;
	int macros;  /* its words have some: see macro.h */
};

/* How the words are meant; all zero: by the name's end. */
struct program_how {
	int no_python;  /* an executable, whatever its name */
	int module;     /* a Python module */
	int run_path;   /* a Python script, whatever its name */
	int local_rank; /* its first argument is --local-rank=N */
};

/* words: the program and its arguments, ending with NULL. A .py file is run by
 * $PYTHON_EXEC or python3, with -u; anything else is executed: looked up in
 * $PATH where it has no slash. -ENOENT or -EACCES, naming the file. */
int program_find(struct program *p, char **words, const struct program_how *how,
		 struct err *e);
void program_release(struct program *p);

#endif

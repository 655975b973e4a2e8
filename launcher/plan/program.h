/* program.h: finds the program that the workers run, and builds its argument
 * list. Looks at files only; starts nothing. */
#ifndef LAUNCHER_PROGRAM_H
#define LAUNCHER_PROGRAM_H

#include "base/error.h"

struct program {
	char *path;  /* for execve */
	char *script; /* for Python, if it was found in $PATH; or NULL */
	char **argv; /* ends with NULL; all other words are borrowed */
	int nargs;
	int macros;  /* its words contain macros (macro.h) */
	int ports;   /* one of them is for a port of each worker */
	int peers;   /* one of them is for the file of all workers' ports */
	int is_python; /* path is a Python */
};

/* How to read the words; all zero: Python runs a name with .py, .pyw or .pyz,
 * a folder with a __main__.py, and a file whose first line starts a launcher.
 */
struct program_how {
	int no_python;  /* an executable, whatever its name */
	int module;     /* a Python module */
	int run_path;   /* a Python script, whatever its name */
	int local_rank; /* its first argument is --local-rank=N */
};

/* words: the program and its arguments, ending with NULL. Python is
 * $PYTHON_EXEC or python3, with -u. Anything else is executed, and looked up in
 * $PATH if it has no slash. -ENOENT or -EACCES, naming the file. */
int program_find(struct program *p, char **words, const struct program_how *how,
		 struct err *e);
void program_release(struct program *p);

/* 1 if path is a link to a file that does not exist, with that file's path in
 * out[PATH_MAX]; else 0. The interpreter of a virtual environment is such a
 * link on a node that lacks the Python that it was made from. */
int program_find_lost_target(const char *path, char *out);

#endif

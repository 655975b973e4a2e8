/* python_command.h: whether a program is a Python script or module, from its
 * words and its #! line, and how its interpreter is called. Starts nothing. */
#ifndef LAUNCHER_PYTHON_COMMAND_H
#define LAUNCHER_PYTHON_COMMAND_H

#include "base/error.h"

enum { PYTHON_WORDS_MAX = 16 };

struct python_command {
	char *path; /* the interpreter, for execve */
	/* the words of a #! line, which precede the script's path and its
	 * arguments; 0: the program is the interpreter */
	int nline;
	char *line[PYTHON_WORDS_MAX];
	char *line_text; /* their storage */
	int is_module;
	int at; /* index of the script or the module in the interpreter's
		 * argv */
	/* argv[0] and the options before it, without -m */
	int noptions;
	char *options[PYTHON_WORDS_MAX];
	char *own_option; /* memory of an option that we shortened */
};

/* path and argv are a worker's, and must outlive c. 0; ERR_USAGE if it is
 * not Python, or too complicated to be forked, for the reason in the text; or
 * -ENOMEM. After an error c needs no release. */
int python_command_find(struct python_command *c, const char *path,
			char *const *argv, struct err *e);
void python_command_release(struct python_command *c);

/* The n-th word of the interpreter's argv for a worker with that path and argv,
 * whose words may differ from those above; NULL after the last. */
const char *python_command_word(const struct python_command *c,
				const char *path, char *const *argv, int n);

#endif

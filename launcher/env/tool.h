/* tool.h: runs a scheduler's own command and waits for its answer. */
#ifndef LAUNCHER_TOOL_H
#define LAUNCHER_TOOL_H

#include <stddef.h>

#include "base/error.h"

/* Runs the command of words, which end with NULL; words[0] is looked up in
 * PATH. Writes what it prints to out. 0; an error with its message if it fails;
 * -errno if it cannot be started or does not answer within ms. */
int tool_run(const char *const *words, int ms, char *out, size_t size,
	     struct err *e);

#endif

/* dynlib.h: loads shared libraries on demand, with an error text that says what
 * was looked for. */
#ifndef SDK_DYNLIB_H
#define SDK_DYNLIB_H

#include <stddef.h>

#include "base/error.h"

/* dlopen with RTLD_LOCAL and flags (RTLD_NOW or RTLD_LAZY); NULL: not found.
 * Also searches the directories that the loader would search for the program,
 * whose RUNPATH does not apply to us: so it does not matter whether libddp is
 * linked as libddp.a or libddp.so. */
void *ddp__dynlib_load(const char *name, int flags);
/* Finds the file `name` in those directories; writes its path to out and
 * returns out, or NULL. */
const char *ddp__dynlib_program_path(const char *name, char *out, size_t size);

/* Loads $variable (a path or a name) if it is set and not empty, else the first
 * of names (ends with NULL) that exists. flags: or'ed to RTLD_NOW. NULL:
 * ERR_SYSTEM; the text says what was looked for, where, and what to do. */
void *ddp__dynlib_open(const char *variable, const char *const *names,
		       int flags, struct err *e);

/* The file of a handle, cut to size. */
void ddp__dynlib_path(void *library, char *out, size_t size);

#endif

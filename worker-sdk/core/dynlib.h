/* dynlib.h: loads shared libraries on demand, with an error text that lists the
 * places searched. */
#ifndef SDK_DYNLIB_H
#define SDK_DYNLIB_H

#include <stddef.h>

#include "base/error.h"

/* dlopen with RTLD_LOCAL and flags (RTLD_NOW or RTLD_LAZY); NULL: not found.
 * Also searches the directories that the loader would search for the program:
 * the program's RUNPATH does not apply to libddp.so, so that without this
 * search libddp.a and libddp.so would behave differently. */
void *ddp__dynlib_load(const char *name, int flags);
/* Finds the file `name` in those directories; writes its path to out and
 * returns out, or NULL. */
const char *ddp__dynlib_program_path(const char *name, char *out, size_t size);

/* Loads $variable (a path or a name) if it is set and not empty, else the first
 * of names (ends with NULL) that exists. flags: or'ed to RTLD_NOW. NULL:
 * ERR_SYSTEM; the text says which library was searched for, where, and what to
 * do. */
void *ddp__dynlib_open(const char *variable, const char *const *names,
		       int flags, struct err *e);

/* Writes the path of the library's file to out, cut to size. */
void ddp__dynlib_path(void *library, char *out, size_t size);

#endif

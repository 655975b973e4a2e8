/* dynlib.h: a shared library that is looked for only when it is needed, and
 * what is said when it is not there. */
#ifndef SDK_DYNLIB_H
#define SDK_DYNLIB_H

#include <stddef.h>

#include "base/error.h"

/* dlopen of a name, with RTLD_LOCAL and flags (RTLD_NOW or RTLD_LAZY), or NULL.
 * Where the loader finds none for us the folders are asked in which it would
 * look for the program, whose RUNPATH is not ours: so it makes no difference
 * whether libddp is linked as libddp.a or as libddp.so. */
void *ddp__dynlib_load(const char *name, int flags);
/* The file of that name in these folders, out[size], or NULL. */
const char *ddp__dynlib_program_path(const char *name, char *out, size_t size);

/* A handle, by ddp__dynlib_load, of $variable (a path, or a name) where it is
 * set and not empty, else of the first of names (ends with NULL) that there is.
 * flags: or'ed to RTLD_NOW. NULL: ERR_SYSTEM, one line: what was looked for,
 * where, and what to do. */
void *ddp__dynlib_open(const char *variable, const char *const *names,
		       int flags, struct err *e);

/* The file that a handle is of, cut to size. */
void ddp__dynlib_path(void *library, char *out, size_t size);

#endif

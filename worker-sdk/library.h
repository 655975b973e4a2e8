/* library.h: a shared library that is looked for only when it is needed, and
 * what is said when it is not there. */
#ifndef SDK_LIBRARY_H
#define SDK_LIBRARY_H

#include <stddef.h>

#include "base/error.h"

/* A dlopen handle of $variable (a path, or a name that the loader looks up)
 * where it is set and not empty, else of the first of names (ends with NULL)
 * that there is. flags: or'ed to RTLD_NOW | RTLD_LOCAL. NULL: ERR_SYSTEM, one
 * line: what was looked for, where, and what to do. */
void *ddp__library_open(const char *variable, const char *const *names,
			int flags, struct err *e);

/* The file that a handle is of, cut to size. */
void ddp__library_path(void *library, char *out, size_t size);

#endif

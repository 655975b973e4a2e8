/* dynlib.h: a shared library that is loaded on first use, and a table of the
 * functions to look up in it. */
#ifndef BASE_DYNLIB_H
#define BASE_DYNLIB_H

#include <stddef.h>

#include "base/error.h"

struct dynlib_symbol {
	const char *name;
	size_t offset; /* where the caller's struct has the function pointer */
};

struct dynlib {
	const char *soname;  /* "libcjson.so.1" */
	const char *without; /* what fails without it: starts an error's text */
	const char *remedy;  /* "package libcjson1 on Debian": ends it */
	const struct dynlib_symbol *rows;
	size_t n;
};

/* A row: the member of the struct `type`, and the function that it points to.
 */
#define DYNLIB_SYMBOL(type, member, name)    \
	{                                    \
		name, offsetof(type, member) \
	}

/* Loads the library and sets every function pointer in *calls. Returns its
 * handle, which stays loaded unless the caller closes it; NULL, and ERR_SYSTEM,
 * if the library or one of the functions is missing. */
void *dynlib_load(const struct dynlib *s, void *calls, struct err *e);

#endif

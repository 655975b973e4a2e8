/* symbols.h: a shared library that is loaded when it is first needed, and the
 * functions that are called in it: a row for each of them. */
#ifndef BASE_SYMBOLS_H
#define BASE_SYMBOLS_H

#include <stddef.h>

#include "base/error.h"

struct symbol {
	const char *name;
	size_t offset; /* of the pointer to it in the caller's struct */
};

struct symbols {
	const char *soname;  /* "libcjson.so.1" */
	const char *without; /* what cannot be: begins the text */
	const char *remedy;  /* "Debian's package is libcjson1"; ends it */
	const struct symbol *rows;
	size_t n;
};

/* A row: what the header declares of it, and its name. */
#define SYMBOL(type, member, name) {name, offsetof(type, member)}

/* The library's handle, every pointer in calls being set: it stays loaded
 * unless the caller closes it. NULL: it is not there, or lacks one of them:
 * ERR_SYSTEM, and the text says what cannot be, why, and what to do. */
void *symbols_load(const struct symbols *s, void *calls, struct err *e);

#endif

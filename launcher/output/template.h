/* template.h: cuts a template of Python's string.Template into pieces: text,
 * $name, ${name}, and $$, which stands for a $. Pure. The caller knows the
 * names' values and leaves unknown ones as they are, as safe_substitute does.
 */
#ifndef LAUNCHER_TEMPLATE_H
#define LAUNCHER_TEMPLATE_H

#include "base/buf.h"

struct template_piece {
	struct slice text; /* to be put if name is empty or unknown */
	struct slice name; /* a variable's, without $ and braces; or empty */
};

/* Takes the next piece off *template; 0 at its end. */
int template_next(const char **template, struct template_piece *piece);

/* 1 if the piece is the variable of that name. */
int template_names(const struct template_piece *piece, const char *name);

#endif

/* template.h: Python's string.Template, cut into pieces: text, $name, ${name},
 * and $$, which is a $. Pure; what a name stands for is the caller's to know,
 * who puts the text of an unknown one, as safe_substitute does. */
#ifndef LAUNCHER_TEMPLATE_H
#define LAUNCHER_TEMPLATE_H

#include "base/buf.h"

struct template_piece {
	struct slice text; /* what to put where the name is not known */
	struct slice name; /* of a variable, without $ and braces; or empty */
};

/* Takes the next piece off *template; 0 at its end. */
int template_next(const char **template, struct template_piece *piece);

/* Whether the piece is the variable of that name. */
int template_names(const struct template_piece *piece, const char *name);

#endif

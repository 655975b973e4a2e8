/* template.h: cuts a template of Python's string.Template into pieces (text,
 * $name, ${name}, and $$ for a $), and makes the prefix of a worker's lines
 * from one. Pure. Unknown names stay as they are, as with safe_substitute. */
#ifndef LAUNCHER_OUTPUT_TEMPLATE_H
#define LAUNCHER_OUTPUT_TEMPLATE_H

#include <stdint.h>

#include "base/buf.h"

struct template_piece {
	struct slice text; /* what to print if name is empty or unknown */
	struct slice name; /* a variable's, without $ and braces; or empty */
};

/* Takes the next piece off *template; 0 at its end. */
int template_next(const char **template, struct template_piece *piece);

/* 1 if the piece is the variable of that name. */
int template_names(const struct template_piece *piece, const char *name);

/* ---- the prefix of a worker's lines ---- */

#define LINE_PREFIX_DEFAULT "[${rank}] "

/* The rank is a text: if many ranks print a line, it is "0-3,7". */
struct line_prefix_vars {
	const char *role_name, *host;
	const char *rank, *local_rank;
	const char *stream; /* stdout or stderr */
	uint32_t node_rank, world_size;
};

/* Appends to out. Leaves out newlines and other control characters that the
 * user's template may have, except tabs and escapes. */
void line_prefix_put(struct buf *out, const char *template,
		     const struct line_prefix_vars *vars);

#endif

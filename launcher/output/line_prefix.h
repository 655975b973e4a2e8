/* line_prefix.h: makes the prefix of a worker's lines from a template, as
 * Python's string.Template.safe_substitute does: $name, ${name} and $$; unknown
 * names stay as they are. Pure. */
#ifndef LAUNCHER_LINE_PREFIX_H
#define LAUNCHER_LINE_PREFIX_H

#include <stdint.h>

#include "base/buf.h"

#define LINE_PREFIX_DEFAULT "[${rank}] "

/* Ranks are texts, for a line that many ranks printed has "0-3,7". */
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

/* prefix.h: what stands before a worker's lines, made of a template as Python's
 * string.Template.safe_substitute does it: $name, ${name} and $$; what it does
 * not know stays as it is. Pure. */
#ifndef LAUNCHER_PREFIX_H
#define LAUNCHER_PREFIX_H

#include <stdint.h>

#include "base/buf.h"

#define PREFIX_DEFAULT "[${rank}] "

/* Ranks are texts: of a line that many ranks said, "0-3,7". */
struct prefix_vars {
	const char *role_name, *host;
	const char *rank, *local_rank;
	uint32_t node_rank, world_size;
};

/* Appends to out. A template of the user's may have newlines and the like:
 * what is no printable character is left out. */
void prefix_put(struct buf *out, const char *template,
		const struct prefix_vars *vars);

#endif

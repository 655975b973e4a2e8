/* macro.h: ${local_rank} in a worker's arguments, as Python's
 * Template.safe_substitute puts it in: $local_rank and ${local_rank} are
 * replaced, $$ is a $, all else stays. Pure. */
#ifndef LAUNCHER_MACRO_H
#define LAUNCHER_MACRO_H

#include <stdint.h>

/* Writes text and its NUL to out and returns the byte behind it. It is never
 * longer than text: the longest rank has fewer digits than the name. */
char *macro_expand(const char *text, uint32_t local_rank, char *out);

#endif

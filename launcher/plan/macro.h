/* macro.h: ${local_rank} in a worker's arguments, as Python's
 * Template.safe_substitute puts it in: $local_rank and ${local_rank} are
 * replaced, $$ is a $, all else stays. But a text that names neither stays as
 * it is: `sh -c 'echo $$'` means the shell's pid. Pure. */
#ifndef LAUNCHER_MACRO_H
#define LAUNCHER_MACRO_H

#include <stdint.h>

/* 1 if the text has one of them, be it behind another $. */
int macro_occurs(const char *text);

/* Writes text and its NUL to out and returns the byte behind it. It is never
 * longer than text: the longest rank has fewer digits than the name. */
char *macro_expand(const char *text, uint32_t local_rank, char *out);

#endif

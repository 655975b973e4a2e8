/* macro.h: expands ${local_rank} in a worker's arguments, as Python's
 * Template.safe_substitute does: $local_rank and ${local_rank} are replaced, $$
 * becomes $, all else stays. A text that names neither is left alone: in
 * `sh -c 'echo $$'` the $$ is the shell's pid. Pure. */
#ifndef LAUNCHER_MACRO_H
#define LAUNCHER_MACRO_H

#include <stdint.h>

/* 1 if the text has either macro, even after another $. */
int macro_occurs(const char *text);

/* Writes the expanded text and its NUL to out; returns the byte after it. It is
 * never longer than text: a rank has fewer digits than the name has letters. */
char *macro_expand(const char *text, uint32_t local_rank, char *out);

#endif

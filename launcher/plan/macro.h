/* macro.h: macros in a worker's arguments, as Python's Template.safe_substitute
 * expands them: ${local_rank}, $local_rank and those below are replaced, $$
 * becomes $, all else stays. A text without a macro is left alone: in
 * `sh -c 'echo $$'` the $$ is the shell's pid. Pure. */
#ifndef LAUNCHER_MACRO_H
#define LAUNCHER_MACRO_H

#include <stddef.h>
#include <stdint.h>

/* Where the values come from: all but local_rank from the worker's variables.
 */
struct macro_values {
	char *const *vars; /* "NAME=value", ends with NULL */
	/* names of variables whose value is not known; their macros stay as
	 * they are. Ends with NULL; NULL: all are known */
	const char *const *unknown;
	uint32_t local_rank;
};

/* 1 if the text has a macro, even after another $. */
int macro_is_in(const char *text);

/* 1 if the text has the macro that stands for the port of the worker. */
int macro_is_port_in(const char *text);

/* 1 if the text has the macro that stands for the file of all ports. */
int macro_is_peers_file_in(const char *text);

/* Bytes that the expanded text needs at most, for any rank, with its NUL. */
size_t macro_room(const char *text, char *const *vars);

/* Writes the expanded text and its NUL to out; returns the byte after it. */
char *macro_expand(const char *text, const struct macro_values *v, char *out);

#endif

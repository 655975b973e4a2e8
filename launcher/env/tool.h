/* tool.h: runs a scheduler's own command, such as Slurm's scontrol, and waits
 * for its answer. */
#ifndef LAUNCHER_TOOL_H
#define LAUNCHER_TOOL_H

#include <stddef.h>

#include "base/error.h"
#include "base/sock.h"

/* Runs the command of words, which end with NULL; words[0] is looked up in
 * PATH. Writes what it prints to out. 0; an error with its message if it fails;
 * -errno if it cannot be started or does not answer within ms. */
int tool_run(const char *const *words, int ms, char *out, size_t size,
	     struct err *e);

/* ---- Slurm's scontrol ---- */

/* Runs scontrol with at most four arguments, ending with NULL, and writes its
 * output to out. 0; an error with scontrol's message if it fails; -errno if it
 * cannot be started or does not answer within ms. */
int scontrol_run(const char *const *arguments, int ms, char *out, size_t size,
		 struct err *e);

/* Writes the address by which Slurm reaches that node to out[SOCK_HOST_MAX].
 * 1, or 0 if scontrol is missing, older than 23.11, or does not know the node.
 */
int scontrol_address(const char *node, char *out);

/* Pure: the same, from the output of `scontrol getaddrs` ("n1: 10.0.0.1:6818").
 */
int scontrol_parse_address(const char *text, const char *node, char *out);

#endif

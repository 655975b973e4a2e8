/* scontrol.h: asks Slurm's scontrol, and waits for its answer. */
#ifndef LAUNCHER_SCONTROL_H
#define LAUNCHER_SCONTROL_H

#include "base/sock.h"

/* Runs scontrol with at most four arguments, up to NULL; out gets what it
 * writes. 0; its failure is an error with its own words, one to start it or no
 * answer within ms -errno. */
int scontrol_run(const char *const *arguments, int ms, char *out, size_t size,
		 struct err *e);

/* The address by which Slurm reaches that node, into out[SOCK_HOST_MAX]: 1; 0
 * where scontrol is missing, or older than 23.11, or does not know it. */
int scontrol_address(const char *node, char *out);

/* Pure: the same of what `scontrol getaddrs` writes ("n1: 10.0.0.1:6818"). */
int scontrol_parse_address(const char *text, const char *node, char *out);

#endif

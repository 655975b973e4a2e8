/* step_address.h: where the nodes of a step of Slurm's meet when the first
 * node's name does not resolve: Slurm itself goes by addresses, and a site's
 * NodeNames may be no names of hosts. Blocks, on the resolver and scontrol. */
#ifndef LAUNCHER_STEP_ADDRESS_H
#define LAUNCHER_STEP_ADDRESS_H

#include "launcher/config/config.h"

/* Up to max addresses to use instead, with a line that says so: on the first
 * node itself one that stands for all of its own; elsewhere what scontrol says,
 * else the place where srun runs, which is only likely to be the one:
 * *is_guess. In *e is why the name does not resolve; where there is nothing to
 * use it becomes the error that says what to do, and its code is returned. */
int step_address_find(const struct config *c, const char *host,
		      struct sock_addr *out, int max, int *is_guess,
		      struct err *e);

/* On that first node: how others find it, into text[SOCK_TEXT_MAX]. */
void step_address_own(const struct config *c, char *text);

#endif

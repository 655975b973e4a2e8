/* nccl.h: the options --nccl-debug and --net-interface, which configure NCCL
 * and gloo through a worker's environment. */
#ifndef LAUNCHER_NCCL_H
#define LAUNCHER_NCCL_H

#include <net/if.h>
#include <stdint.h>

#include "base/error.h"

enum { NCCL_SUBSYSTEMS_MAX = 256 };

/* All zero: nothing was asked for. */
struct nccl {
	char debug[8]; /* NCCL_DEBUG; "": not given */
	char subsystems[NCCL_SUBSYSTEMS_MAX]; /* NCCL_DEBUG_SUBSYS; or "" */
	const char *interface; /* NULL, "auto", or its name */
};

/* Parses LEVEL, LEVEL:SUBSYSTEM,... or LEVEL:^SUBSYSTEM,... in any case; NULL:
 * not given. 0 or ERR_USAGE, which names the bad word and the known ones. Pure.
 */
int nccl_parse_debug(struct nccl *n, const char *text, struct err *e);

/* name: NULL (not given), "auto" or an interface of this host. 0 or ERR_USAGE,
 * which names this host's interfaces. */
int nccl_check_interface(struct nccl *n, const char *name, struct err *e);

/* The interface for the workers of a job of nnodes nodes, in out[IF_NAMESIZE]
 * or elsewhere; "" if NCCL chooses. auto is the interface with node_addr,
 * through which other nodes reach this one; for a job of one node it is "". */
const char *nccl_interface(const struct nccl *n, const char *node_addr,
			   uint32_t nnodes, char *out);

#endif

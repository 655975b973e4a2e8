/* nccl.h: what NCCL and gloo are told in a worker's environment because the
 * user asked for it: --nccl-debug and --net-interface. */
#ifndef LAUNCHER_NCCL_H
#define LAUNCHER_NCCL_H

#include <net/if.h>
#include <stdint.h>

#include "base/error.h"

enum { NCCL_SUBSYSTEMS_MAX = 256 };

/* All zero: nothing was asked for. */
struct nccl {
	char debug[8]; /* NCCL_DEBUG; "": not said */
	char subsystems[NCCL_SUBSYSTEMS_MAX]; /* NCCL_DEBUG_SUBSYS; "": not */
	const char *interface; /* NULL, "auto", or its name */
};

/* LEVEL, LEVEL:SUBSYSTEM,... or LEVEL:^SUBSYSTEM,... in any case; NULL is
 * nothing. ERR_USAGE names the word and those that are known. Pure. */
int nccl_parse_debug(struct nccl *n, const char *text, struct err *e);

/* NULL is nothing; what is not auto must be an interface of this host, else
 * ERR_USAGE names those that are. */
int nccl_check_interface(struct nccl *n, const char *name, struct err *e);

/* The interface for a worker of a job of so many nodes, in out[IF_NAMESIZE] or
 * elsewhere; "" where NCCL is to choose. auto is the one that has node_addr, by
 * which other nodes reach this one; a job of one node has none. */
const char *nccl_interface(const struct nccl *n, const char *node_addr,
			   uint32_t nnodes, char *out);

#endif

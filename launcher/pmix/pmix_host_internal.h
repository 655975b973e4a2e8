/* pmix_host_internal.h: what the helper's two files about libpmix's server
 * share: pmix_host.c (callbacks) and pmix_register.c (the job's facts). */
#ifndef LAUNCHER_PMIX_HOST_INTERNAL_H
#define LAUNCHER_PMIX_HOST_INTERNAL_H

#include "launcher/pmix/pmix_host.h"
#include "launcher/pmix/pmix_library.h"

struct pmix_host {
	int fd;      /* the agent's */
	int is_lost; /* a message to it was */
	int has_begun;
	struct pmix_library library;
	const struct pmix_job *job;
};

/* Starts the server, tells it about the job, and appends the variables of this
 * node's ranks to vars. ERR_SYSTEM names the call that failed. */
int pmix_host_register(struct pmix_host *h,
		       const struct pmix_abi_module *module, struct buf *vars,
		       struct err *e);

#endif

/* pmix_host.h: libpmix's server in the helper process: registers the job, turns
 * what the library asks into frames, and answers of the agent into what the
 * library expects. The library has a thread of its own, in which it calls us.
 * There is one per process, because its callbacks have no argument of ours. */
#ifndef LAUNCHER_PMIX_HOST_H
#define LAUNCHER_PMIX_HOST_H

#include "launcher/pmix/pmix_frame.h"
#include "launcher/pmix/pmix_job.h"
#include "launcher/pmix/pmix_library.h"

/* Loads the library. Frames are written to fd, from any thread. */
int pmix_host_load(int fd, struct err *e);
/* Starts the server and registers the job, which outlives it. The variables of
 * the ranks are appended to vars (pmix_frame.h). */
int pmix_host_begin(const struct pmix_job *job, struct buf *vars,
		    struct err *e);
/* FENCED, WANTED or FOUND. */
void pmix_host_handle(const struct pmix_frame *f);
/* Removes the files of the ranks that have ended, and its own. */
void pmix_host_end(void);
/* Writes a frame; the agent's end is noticed where it is read from. */
void pmix_host_send(uint8_t type, uint32_t id, int32_t code,
		    struct slice data);

/* ---- for pmix_register.c, which knows the job's facts ---- */

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

/* status.h: `ddprun status`: what the rendezvous servers of this user's jobs
 * know about them: nodes, workers, round, restarts, and which nodes are missing
 * since when. */
#ifndef LAUNCHER_STATUS_H
#define LAUNCHER_STATUS_H

#include "base/option.h"
#include "launcher/inspect/job_status.h"

extern const struct option_spec status_options[];

/* What --json prints (docs/ddprun-status.1). */
int status_put_json(struct buf *out, const struct job_status_list *l,
		    struct err *e);

/* argv[0] is "status". Returns the exit code. */
int status_main(int argc, char **argv);

#endif

/* status.h: `ddprun status`: what the rendezvous servers of this user's jobs
 * know about them: nodes, workers, round, restarts, and which nodes are missing
 * since when. */
#ifndef LAUNCHER_STATUS_H
#define LAUNCHER_STATUS_H

#include "base/option.h"

extern const struct option_spec status_options[];

/* argv[0] is "status". Returns the exit code. */
int status_main(int argc, char **argv);

#endif

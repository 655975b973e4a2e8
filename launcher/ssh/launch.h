/* launch.h: `ddprun -H`: the head. It runs no workers itself: it starts a
 * ddprun on each host over ssh and a server on the first, shows their output,
 * forwards signals and stdin, and exits as the job does. */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

#include "launcher/config/remote_options.h"

/* argv: config_parse's, which returned CONFIG_WANT_HOSTS. Returns the exit
 * code. */
int launch_run(const struct remote_options *o, char **argv);

#endif

/* ssh.h: the two ends of `ddprun -H`, which are commands of ddprun. */
#ifndef LAUNCHER_SSH_H
#define LAUNCHER_SSH_H

#include "launcher/config/remote_options.h"

/* ---- launch.c ----
 *
 * `ddprun -H`: the head. It runs no workers itself: it starts a ddprun on each
 * host over ssh and a server on the first, shows their output, forwards signals
 * and stdin, and exits as the job does. */

/* argv: config_parse's, which returned CONFIG_WANT_HOSTS. Returns the exit
 * code. */
int launch_run(const struct remote_options *o, char **argv);

/* ---- proxy.c ----
 *
 * The far end of an ssh. Receives a job on stdin, checks whether it can run
 * here, and runs an ordinary ddprun for it; ends all that when stdin ends or is
 * silent for too long. May reach further hosts, and forwards what the head and
 * they send each other. */

/* ddprun --remote-end BUILD [check]: returns PROXY_OTHER_BUILD if this is
 * another build; with check, does nothing else. */
int proxy_main(int argc, char **argv);

enum { PROXY_OTHER_BUILD = 3 };

#endif

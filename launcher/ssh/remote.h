/* remote.h: the head: the ddprun that was typed with -H. It runs no worker: it
 * starts one ddprun on each host over ssh, has them meet on the first, shows
 * what they write, passes on signals and stdin, and exits as the job does. */
#ifndef LAUNCHER_REMOTE_H
#define LAUNCHER_REMOTE_H

#include "launcher/config/config.h"

/* argv: as config_parse got it, which returned CONFIG_WANT_HOSTS. Returns the
 * exit code. */
int remote_run(const struct config *c, char **argv);

#endif

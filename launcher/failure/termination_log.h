/* termination_log.h: writes the failure to the file in a container from which
 * Kubernetes reads the container's last message (kubectl describe pod). */
#ifndef LAUNCHER_TERMINATION_LOG_H
#define LAUNCHER_TERMINATION_LOG_H

#include "base/buf.h"

/* Replaces the contents of /dev/termination-log, or of the file that
 * DDP_TERMINATION_LOG names, by the first line of text. It must be a regular
 * file that is there already, as in a pod. Nothing happens without it, or in a
 * worker of another ddprun. */
void termination_log_write(struct slice text);

#endif

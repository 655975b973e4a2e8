/* ssh_env.h: the row of a ddprun that another ddprun started on this host over
 * ssh. For these two programs; all other code uses launch_env.h. */
#ifndef LAUNCHER_SSH_ENV_H
#define LAUNCHER_SSH_ENV_H

/* "NUMBER PAGE-FD SECRET-FD TOLD-FD": the host's index and three descriptors.
 * ddprun writes the failure page to the first and reads the secret from the
 * second; the third is readable once the head has sent a signal. */
#define SSH_ENV_NODE "DDP_REMOTE_NODE"

/* Reads the variable and removes it from the workers' environment. From then on
 * log lines name this host, and only the first host logs what all would log. */
void ssh_env_init(void);

#endif

/* ssh_env.h: the row of a ddprun that another ddprun has started on this host
 * over ssh, for those two. Everybody else reads launch_env.h. */
#ifndef LAUNCHER_SSH_ENV_H
#define LAUNCHER_SSH_ENV_H

/* "NUMBER PAGE-FD SECRET-FD TOLD-FD": the host's index, where the failure page
 * goes, whence the secret comes, and what is readable once the head has sent a
 * signal. */
#define SSH_ENV_NODE "DDP_REMOTE_NODE"

/* Reads the variable, and takes it out of the workers' environment. Log lines
 * then name this host, and only the first host logs what all would log. */
void ssh_env_init(void);

#endif

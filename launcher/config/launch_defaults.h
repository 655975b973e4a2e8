/* launch_defaults.h: from what the launcher says (launch_env.h) to the options
 * that the user left out: how many nodes, which one this is, how many workers,
 * where they meet, what the job is called. Whatever was given stays. A part of
 * config.c. */
#ifndef LAUNCHER_LAUNCH_DEFAULTS_H
#define LAUNCHER_LAUNCH_DEFAULTS_H

#include "launcher/config/config.h"

/* c->env, and --nnodes where it is not given. Errors as launch_env_init. */
int launch_defaults_init(struct config *c, struct err *e);

/* With --nnodes decided: ERR_USAGE for what this many nodes cannot be; the node
 * rank and the job's name. An endpoint of the user's may bring nodes of several
 * steps together. */
int launch_defaults_nodes(struct config *c, struct err *e);

/* A task's nproc: its GPUs, else the tasks that the job asked for, else its
 * CPUs. */
int launch_defaults_nproc(struct config *c, struct err *e);

/* The endpoint, the ports and who hosts: 1; 0 where the launcher does not say
 * it. c->meets: it is only known later, from launch_defaults_meet. */
int launch_defaults_endpoint(struct config *c);
/* The same for port 0 of an endpoint that was given. */
void launch_defaults_port(struct config *c);

/* c->meets: all nodes call it, and have within c->rdzv_timeout_s the same
 * endpoint and, unless it was given, the same job name. The first is to host.
 * Blocks. */
int launch_defaults_meet(struct config *c, struct err *e);

/* On the first node: one line of what was taken, as the options that would say
 * the same, and what is unwise about it. */
void launch_defaults_log(const struct config *c);

#endif

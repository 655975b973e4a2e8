/* launch_defaults.h: derives the options that the user left out from what the
 * launcher says (launch_env.h): the number of nodes, this node's rank, the
 * number of workers, the endpoint, the job's name. Given options stay. A part
 * of config.c. */
#ifndef LAUNCHER_LAUNCH_DEFAULTS_H
#define LAUNCHER_LAUNCH_DEFAULTS_H

#include "launcher/config/config.h"

/* Sets c->env, and --nnodes if it is not given. Errors as launch_env_init. */
int launch_defaults_init(struct config *c, struct err *e);

/* Call it when --nnodes is decided: sets the node rank and the job's name.
 * ERR_USAGE if the launcher cannot have that many nodes. The user's own
 * endpoint may join the nodes of several steps. */
int launch_defaults_nodes(struct config *c, struct err *e);

/* Sets a task's nproc: the number of its GPUs, else of the tasks that the job
 * asked for, else of its CPUs. */
int launch_defaults_nproc(struct config *c, struct err *e);

/* Sets the endpoint, its ports and is_host. 1, or 0 if the launcher does not
 * determine them. If c->meets is set, launch_defaults_meet finds the endpoint
 * later. */
int launch_defaults_endpoint(struct config *c);
/* The same for port 0 of an endpoint that the user gave. */
void launch_defaults_port(struct config *c);

/* If c->meets is set, all nodes call it and get, within c->rdzv_timeout_s, the
 * same endpoint and, unless it was given, the same job name. The first node is
 * to host the server. Blocks. */
int launch_defaults_meet(struct config *c, struct err *e);

/* On the first node: logs the defaults as one line of equivalent options, and
 * advice about them. */
void launch_defaults_log(const struct config *c);

#endif

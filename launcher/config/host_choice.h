/* host_choice.h: whether the job runs on hosts that this ddprun reaches over
 * ssh, and on which: -H, --hostfile, or what PBS or LSF lists. Fills struct
 * config; starts nothing. */
#ifndef LAUNCHER_HOST_CHOICE_H
#define LAUNCHER_HOST_CHOICE_H

#include "launcher/config/config.h"

/* c->over_ssh and c->hosts; for localhost alone, or a scheduler's only host
 * which is this one, --nproc-per-node instead. ERR_USAGE: the list, or what
 * does not go with it. */
int host_choice_init(struct config *c, struct err *e);

/* With --nnodes decided: what this many hosts cannot be. */
int host_choice_nodes(struct config *c, struct err *e);

/* 1 if the job can go on without one of its hosts: with MIN:MAX, or with more
 * hosts than MAX, as the others are spares. */
int host_choice_can_lose(const struct config *c);

/* One line of what was taken from a scheduler. */
void host_choice_say(const struct config *c);

#endif

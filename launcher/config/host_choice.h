/* host_choice.h: decides whether the job runs on hosts that this ddprun reaches
 * over ssh, and on which: those of -H, --hostfile, PBS or LSF. Fills struct
 * config; starts nothing. */
#ifndef LAUNCHER_HOST_CHOICE_H
#define LAUNCHER_HOST_CHOICE_H

#include "launcher/config/config.h"

/* Sets c->over_ssh and c->hosts. If the only host is localhost, or is a
 * scheduler's and this one, sets --nproc-per-node instead. ERR_USAGE for a bad
 * list or an option that is incompatible with it. */
int host_choice_init(struct config *c, struct err *e);

/* Call it when --nnodes is decided: fits the hosts to it. ERR_USAGE if there
 * are too few. */
int host_choice_nodes(struct config *c, struct err *e);

/* 1 if the job can continue without one of its hosts: with MIN:MAX, or with
 * more hosts than MAX, since the others are spares. */
int host_choice_can_lose(const struct config *c);

/* Logs one line about the hosts that a scheduler listed. */
void host_choice_log(const struct config *c);

#endif

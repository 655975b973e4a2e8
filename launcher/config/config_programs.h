/* config_programs.h: --multi-prog: reads the programs of a job that has
 * several, and decides what follows from their ranks. */
#ifndef LAUNCHER_CONFIG_PROGRAMS_H
#define LAUNCHER_CONFIG_PROGRAMS_H

#include "launcher/config/config.h"

/* Fills c->roles, and c->world_size if only they give it. Once c->words is
 * set, and before the hosts are chosen. ERR_USAGE or -ENOMEM. */
int config_programs_init(struct config *c, struct err *e);
void config_programs_release(struct config *c);

/* Once c->nproc is known: a job on one node. ERR_USAGE. */
int config_programs_check(const struct config *c, struct err *e);

#endif

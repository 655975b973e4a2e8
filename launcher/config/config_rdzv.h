/* config_rdzv.h: the options about where and how the nodes meet: the endpoint,
 * the backend, the local address. A part of config.c. */
#ifndef LAUNCHER_CONFIG_RDZV_H
#define LAUNCHER_CONFIG_RDZV_H

#include "launcher/config/config.h"

/* Call it before anything is inferred: refuses an unknown backend, and options
 * that are incompatible with etcd. */
int config_rdzv_backend(struct config *c, struct err *e);

/* Decides where the job's nodes meet, as this node sees it. Call it after
 * --rdzv-conf was applied. */
int config_rdzv_decide(struct config *c, struct err *e);

/* Checks that hold whether or not a worker will run here. */
int config_rdzv_check(const struct config *c, struct err *e);

/* 1 if the text has 1 to 256 printable bytes. */
int config_is_name(const char *text);

#endif

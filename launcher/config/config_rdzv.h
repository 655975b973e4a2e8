/* config_rdzv.h: of the options, those about where and how the nodes meet: the
 * endpoint, the backend, by which address. A part of config.c. */
#ifndef LAUNCHER_CONFIG_RDZV_H
#define LAUNCHER_CONFIG_RDZV_H

#include "launcher/config/config.h"

/* Before anything is inferred: what can be no backend, and what etcd does not
 * go together with. */
int config_rdzv_backend(struct config *c, struct err *e);

/* Where the job meets, as this node sees it; --rdzv-conf has been applied. */
int config_rdzv_decide(struct config *c, struct err *e);

/* What is wrong whether or not a worker will run here. */
int config_rdzv_check(const struct config *c, struct err *e);

/* 1 if the text has 1 to 256 printable bytes. */
int config_is_name(const char *text);

#endif

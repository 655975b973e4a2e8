/* rdzv_conf.h: torchrun's --rdzv-conf, "key=value,key=value". Pure. */
#ifndef LAUNCHER_RDZV_CONF_H
#define LAUNCHER_RDZV_CONF_H

#include "base/error.h"

struct config;

/* Sets in c what the keys mean, where c has no option of its own for it on the
 * command line. A key that ddprun has no use for is said to be ignored in a
 * log line, as torchrun's users may have one for a plug-in of theirs; one
 * whose value cannot be honoured is ERR_USAGE. */
int rdzv_conf_apply(struct config *c, const char *text, struct err *e);

#endif

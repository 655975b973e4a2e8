/* rdzv_conf.h: torchrun's --rdzv-conf, "key=value,key=value". Pure. */
#ifndef LAUNCHER_RDZV_CONF_H
#define LAUNCHER_RDZV_CONF_H

#include "base/error.h"

struct config;

/* Sets the options that the keys stand for, unless an option on the command
 * line does. Logs that it ignores an unknown key, since users may have one for
 * a plug-in of torchrun's. ERR_USAGE for a value that ddprun cannot honour. */
int rdzv_conf_apply(struct config *c, const char *text, struct err *e);

#endif

/* slurm_conf.h: what a site's slurm.conf says about munge: whether Slurm itself
 * uses it, and at which socket. Pure but for slurm_conf_load. */
#ifndef RENDEZVOUS_SLURM_CONF_H
#define RENDEZVOUS_SLURM_CONF_H

#include "base/buf.h"

enum { SLURM_CONF_SOCKET_MAX = 108 }; /* as sun_path has it */

struct slurm_conf {
	int without_munge; /* AuthType is another plugin's */
	char munge_socket[SLURM_CONF_SOCKET_MAX]; /* AuthInfo's; "": not said */
};

/* Files that it includes are not read. */
void slurm_conf_parse(struct slurm_conf *c, struct slice text);

/* $SLURM_CONF, else the first of Slurm's usual places that can be read; read
 * once. Where there is none nothing is said. Any thread may call it. */
const struct slurm_conf *slurm_conf_load(void);

#endif

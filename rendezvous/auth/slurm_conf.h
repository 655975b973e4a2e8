/* slurm_conf.h: whether the site's slurm.conf uses munge, and at which socket.
 * Pure except slurm_conf_load. */
#ifndef RENDEZVOUS_SLURM_CONF_H
#define RENDEZVOUS_SLURM_CONF_H

#include "base/buf.h"

enum { SLURM_CONF_SOCKET_MAX = 108 }; /* the size of sun_path */

struct slurm_conf {
	int without_munge; /* AuthType is another plugin */
	char munge_socket[SLURM_CONF_SOCKET_MAX]; /* AuthInfo's; "": none */
};

/* Does not read included files. */
void slurm_conf_parse(struct slurm_conf *c, struct slice text);

/* Reads $SLURM_CONF, else the first readable one of Slurm's usual paths, once;
 * all zeroes if there is none. Thread-safe. */
const struct slurm_conf *slurm_conf_load(void);

#endif

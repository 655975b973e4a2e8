/* worker_ports.h: a port for each worker of this node, reserved as MASTER_PORT
 * is: a worker can bind it with SO_REUSEADDR, and the kernel gives it to nobody
 * else. */
#ifndef LAUNCHER_WORKER_PORTS_H
#define LAUNCHER_WORKER_PORTS_H

#include <stdint.h>

#include "base/error.h"

/* All zero: none are reserved. */
struct worker_ports {
	uint32_t n;
	uint16_t *ports; /* by local rank; NULL: none */
	int *fds;
};

/* Reserves n ports, none of which was reserved before, and only then gives the
 * old ones up: connections that the last attempt left in them must not disturb
 * the next. 0, or an error; then p is unchanged. */
MUST_CHECK int worker_ports_reserve(struct worker_ports *p, uint32_t n,
				    struct err *e);
void worker_ports_release(struct worker_ports *p);

#endif

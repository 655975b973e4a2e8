/* service.h: a server that systemd runs: what its manager is told, and the
 * signs of life that it expects. Nothing where it is none. */
#ifndef RENDEZVOUS_SERVICE_H
#define RENDEZVOUS_SERVICE_H

#include "rendezvous/server/hosted.h"

void service_init(struct server *s);
void service_close(struct server *s);
/* It listens; it stops; the number of its jobs is another. */
void service_ready(struct server *s);
void service_stops(struct server *s);
void service_jobs(struct server *s);

#endif

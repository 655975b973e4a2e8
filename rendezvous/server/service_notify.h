/* service_notify.h: a server that systemd runs: what its manager is told, and
 * the signs of life that it expects. Nothing where it is none. */
#ifndef RENDEZVOUS_SERVICE_NOTIFY_H
#define RENDEZVOUS_SERVICE_NOTIFY_H

#include "rendezvous/server/hosted_job.h"

void service_notify_init(struct server *s);
void service_notify_close(struct server *s);
/* It listens; it stops; the number of its jobs is another. */
void service_notify_ready(struct server *s);
void service_notify_stops(struct server *s);
void service_notify_jobs(struct server *s);

#endif

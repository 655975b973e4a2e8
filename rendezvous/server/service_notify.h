/* service_notify.h: reports the server's state to systemd, and feeds its
 * watchdog. Does nothing outside of a service. */
#ifndef RENDEZVOUS_SERVICE_NOTIFY_H
#define RENDEZVOUS_SERVICE_NOTIFY_H

#include "rendezvous/server/hosted_job.h"

void service_notify_init(struct server *s);
void service_notify_close(struct server *s);
/* The server listens; it stops; its number of jobs has changed. */
void service_notify_ready(struct server *s);
void service_notify_stops(struct server *s);
void service_notify_jobs(struct server *s);

#endif

/* metrics.h: GET /health and GET /metrics (Prometheus' text format) of a
 * server: what is there now, and what has happened since its start. */
#ifndef RENDEZVOUS_METRICS_H
#define RENDEZVOUS_METRICS_H

#include "rendezvous/server/hosted_job.h"

/* text: PORT, which is on loopback, or ADDRESS:PORT; says where it listens. */
int metrics_open(struct server *s, const char *text, struct err *e);
void metrics_close(struct server *s);

/* The exposition. */
void metrics_put(struct buf *out, const struct server *s);

#endif

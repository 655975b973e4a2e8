/* metrics.h: GET /health and GET /metrics (Prometheus' text format): the
 * server's current state, and counts since its start. */
#ifndef RENDEZVOUS_METRICS_H
#define RENDEZVOUS_METRICS_H

#include "rendezvous/server/hosted_job.h"

/* text: PORT (on loopback) or ADDRESS:PORT. Logs where it listens. */
int metrics_open(struct server *s, const char *text, struct err *e);
void metrics_close(struct server *s);

/* Appends the metrics in Prometheus' format. */
void metrics_put(struct buf *out, const struct server *s);

#endif

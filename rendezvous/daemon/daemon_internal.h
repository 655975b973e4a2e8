/* daemon_internal.h: what daemon.c uses of the other files of this room, which
 * each own a part of the running server. */
#ifndef RENDEZVOUS_DAEMON_INTERNAL_H
#define RENDEZVOUS_DAEMON_INTERNAL_H

#include "rendezvous/election/leadership.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/server/server.h"

/* ---- listening.c ----
 *
 * The server's listening sockets. At a port that PyTorch's clients of a job
 * share with ours (torch_job), the first byte of a connection decides whose it
 * is, and nothing is sent before: ours begin with the preface. Owns the
 * sockets, and connections that have not sent anything yet. */

#define RENDEZVOUS_LISTENING_H

enum { LISTENING_MUTE_MAX = 512 }; /* connections that have sent nothing */

/* Listens on n sockets, which it takes. s->accept is set. -errno with text;
 * listening_close has to follow. */
int listening_open(struct server *s, const int *fds, int n, struct err *e);
/* A client of ours may be accepted now. */
void listening_again(struct server *s);
/* No more clients. Idempotent. */
void listening_close(struct server *s);

/* ---- elected_server.c ----
 *
 * A server that leads only while etcd says so: connects the leadership to the
 * server's journal, jobs and waiting clients. */

#define RENDEZVOUS_ELECTED_SERVER_H

/* Sets s->leadership. o lacks job, address and is_quiet, which are s's.
 * ERR_USAGE, ERR_SYSTEM. */
int elected_server_open(struct server *s, const struct leadership_options *o,
			struct err *e);

/* ---- metrics.c ----
 *
 * GET /health and GET /metrics (Prometheus' text format): the server's current
 * state, and counts since its start. */

#define RENDEZVOUS_METRICS_H

/* text: PORT (on loopback) or ADDRESS:PORT. Logs where it listens. */
int metrics_open(struct server *s, const char *text, struct err *e);
void metrics_close(struct server *s);

#endif

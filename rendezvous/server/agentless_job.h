/* agentless_job.h: the one job of a server that rank 0 started for workers
 * without agents (--guests): a rank exists as long as its connection.
 * hosted_job.c runs the job like any other; this knows when ranks come and go.
 */
#ifndef RENDEZVOUS_AGENTLESS_JOB_H
#define RENDEZVOUS_AGENTLESS_JOB_H

#include "rendezvous/server/hosted_job.h"

/* Starts the job, as s->agentless. */
int agentless_job_open(struct server *s, const char *job, uint32_t ranks,
		       struct err *e);
/* Whether this worker may join: 0; ERR_REFUSED; ERR_USAGE if another process
 * has the same rank. */
int agentless_job_check(const struct hosted_job *h,
			const struct wire_hello *hello, struct err *e);
/* A worker has joined: keepalive watches its connection for a dead host. */
void agentless_job_joined(struct peer *p, const struct wire_hello *hello);
/* A worker is gone, with or without a GOODBYE. */
void agentless_job_left(struct hosted_job *h, struct peer *p, const char *how);
/* All ranks have joined and left. */
int agentless_job_is_over(const struct hosted_job *h);
/* No worker is left: frees the job. */
void agentless_job_close(struct hosted_job *h);

#endif

/* agentless_job.h: the one job of a server that rank 0 started for a world
 * without agents: its ranks are there while their connections are. hosted.c
 * runs it like any other; this knows when a rank comes and goes, and when all
 * have. */
#ifndef RENDEZVOUS_AGENTLESS_JOB_H
#define RENDEZVOUS_AGENTLESS_JOB_H

#include "rendezvous/server/hosted_job.h"

/* The job of that name with that many ranks runs from now on; s->agentless. */
int agentless_job_open(struct server *s, const char *job, uint32_t ranks,
		       struct err *e);
/* 0, or why this worker cannot be one: ERR_REFUSED: not here, not
 * now; ERR_USAGE: two are that rank. */
int agentless_job_check(const struct hosted_job *h,
			const struct wire_hello *hello, struct err *e);
/* Its worker has come; the connection is watched for a host that vanishes. */
void agentless_job_came(struct peer *m, const struct wire_hello *hello);
/* Its worker has gone, with or without a GOODBYE. */
void agentless_job_left(struct hosted_job *h, struct peer *m, const char *how);
/* All have come and gone. */
int agentless_job_all_gone(const struct hosted_job *h);
/* Nobody is there any more; frees the job. */
void agentless_job_close(struct hosted_job *h);

#endif

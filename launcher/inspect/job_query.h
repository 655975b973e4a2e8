/* job_query.h: asks rendezvous servers for the jobs that `ddprun status` and
 * `ddprun top` show. Blocks while it asks. */
#ifndef LAUNCHER_JOB_QUERY_H
#define LAUNCHER_JOB_QUERY_H

#include "base/flight_recorder.h"
#include "rendezvous/status/job_status.h"

struct job_query {
	const char *job;    /* NULL: all */
	const char *server; /* --rdzv-endpoint; NULL: those of local jobs */
	const char *auth, *token_file; /* for that server, or NULL */
	double timeout_s; /* a server's silence for that long is an error */
	/* Called for a local job whose server does not answer. */
	void (*on_unreachable)(void *arg, const char *job, const struct err *e);
	void *arg;
};

/* Asks q's server, or the servers of the jobs that this user's ddpruns on this
 * host belong to. A local job whose server does not answer is counted, and the
 * others' jobs are there. Release the list in any case. */
int job_query_run(struct job_status_list *l,
		  const struct job_query *q, struct err *e);

#endif

/* job_status.h: the jobs that `ddprun status` and `ddprun top` show, as their
 * rendezvous servers describe them. Blocks while it asks. */
#ifndef LAUNCHER_JOB_STATUS_H
#define LAUNCHER_JOB_STATUS_H

#include "base/flight_recorder.h"
#include "rendezvous/wire.h"

struct job_status_query {
	const char *job;    /* NULL: all */
	const char *server; /* --rdzv-endpoint; NULL: those of local jobs */
	const char *auth, *token_file; /* for that server, or NULL */
	double timeout_s; /* a server's silence for that long is an error */
	/* Called for a local job whose server does not answer. */
	void (*on_unreachable)(void *arg, const char *job, const struct err *e);
	void *arg;
};

/* The slices of `as` and `ranks` point into bytes and rank_bytes. */
struct job_status {
	char server[320];
	char *bytes, *rank_bytes; /* the latter may be NULL */
	struct wire_job as;
	struct wire_ranks ranks;
	struct buf gpus; /* frames: a GPUS for each node that has some */
};

struct job_status_list {
	struct job_status *jobs;
	size_t n;
	uint32_t unreachable; /* servers */
};

/* Asks q's server, or the servers of the jobs that this user's ddpruns on this
 * host belong to. A local job whose server does not answer is counted, and the
 * others' jobs are there. Release the list in any case. */
int job_status_list_query(struct job_status_list *l,
			  const struct job_status_query *q, struct err *e);
void job_status_list_release(struct job_status_list *l);

/* Pure. The job's nodes by rank, those without one last. Returns how many there
 * are; the caller frees *out. */
uint32_t job_status_nodes(const struct job_status *job,
			  struct wire_job_node **out);

/* Pure: the names of states of a job and of a node. Never NULL. */
const char *job_status_state_name(uint8_t state);
const char *job_status_node_state_name(uint8_t state);

#endif

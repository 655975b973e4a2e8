/* status.h: `ddprun status`: what the rendezvous servers of this user's jobs
 * know of them: nodes, workers, round, restarts, who is waited for since when.
 */
#ifndef LAUNCHER_STATUS_H
#define LAUNCHER_STATUS_H

#include "base/buf.h"
#include "base/option.h"
#include "rendezvous/wire.h"

struct status_options {
	const char *job;    /* NULL: all */
	const char *server; /* --rdzv-endpoint, or NULL */
	const char *auth, *token_file; /* or NULL */
	double timeout_s;
	int json;
};

extern const struct option_spec status_options[];

/* A job as its server tells it; the slices of `as` point into bytes. */
struct status_job {
	char server[320];
	char *bytes;
	struct wire_job as;
};

struct status {
	struct status_options o;
	struct status_job *jobs;
	size_t n;
	uint32_t unreachable; /* servers */
};

/* argv[0] is "status". What ddprun exits with. */
int status_main(int argc, char **argv);

/* "running", and of a node's: "runs". Never NULL. */
const char *status_state(uint8_t state);
const char *status_node_state(uint8_t state);
/* The job's nodes, by rank; those without one at the end. Returns how many;
 * *out is to be freed. */
uint32_t status_nodes(const struct status_job *job, struct wire_job_node **out);
int status_put_json(struct buf *out, const struct status *s, struct err *e);

#endif

/* stop_request.h: a request to stop the job: its source (a signal, Slurm's time
 * limit, the server), the time that the workers have, and which ends of a
 * worker comply with it. Pure. */
#ifndef LAUNCHER_STOP_REQUEST_H
#define LAUNCHER_STOP_REQUEST_H

#include "launcher/worker/signal_set.h"
#include "launcher/worker/worker_group.h"
#include "rendezvous/wire.h"

enum {
	STOP_MARGIN_S = 5,   /* kept from the time limit for our own end */
	STOP_ECHO_MS = 2000, /* Slurm may repeat a signal within this time */
	STOP_HOLD_MS = 500,  /* how much earlier a worker may get a signal */
};

/* The user's and the launcher's settings for the end of the job. */
struct stop_options {
	struct signal_set ending;
	struct signal_set warning; /* sent before the time limit (sbatch
				    * --signal) */
	double shutdown_timeout_s; /* --shutdown-timeout */
	uint64_t end_time;    /* unix time when Slurm ends the job; 0: never */
	double stop_before_s; /* how long before it we stop; 0: never */
	int stop_before_given;
	int requeues; /* the job is requeued at its time limit */
};

struct stop_request {
	uint8_t level, cause; /* wire.h's; level 0: none */
	int signal;           /* for workers that do not poll; 0: none */
	uint32_t grace_ms;    /* SHUTDOWN_NO_LIMIT: until Slurm ends it */
	int warned;           /* the first request was a warning */
	struct signal_set signals; /* those of all requests so far */
	int exit_code;        /* if the request ends the job; the first
			       * request's */
};

/* number is in one of the sets of o; now is unix time. */
struct stop_request stop_request_of_signal(const struct stop_options *o,
					   int number, uint64_t now);
/* The time limit of Slurm's job is near. */
struct stop_request stop_request_of_limit(const struct stop_options *o,
					  uint64_t now);
struct stop_request stop_request_of_wire(const struct wire_stop *m);

/* The ms from now until stop_request_of_limit is due, 0 if it never is. */
uint64_t stop_request_due_ms(const struct stop_options *o, uint64_t now);

/* Merges a new request into the requests so far: 1; 0 if it adds nothing. */
int stop_request_merge(struct stop_request *old, const struct stop_request *n);

/* Whether the end of w complies with n. A worker that ends otherwise has
 * failed, except that a notified worker may end in any way after a signal from
 * a terminal. */
int stop_request_is_obeyed(const struct stop_request *n, const struct worker *w,
			   int is_notified);
/* Before any request: whether w died of a signal that may reach us as well. */
int stop_request_may_follow(const struct stop_options *o,
			    const struct worker *w);

#endif

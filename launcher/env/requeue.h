/* requeue.h: requeues a Slurm batch job that had to stop, and asks scontrol why
 * it had to: nothing else knows. */
#ifndef LAUNCHER_REQUEUE_H
#define LAUNCHER_REQUEUE_H

#include <stdint.h>

#include "base/error.h"
#include "slurm/allocation.h"

struct requeue_options {
	const char *on; /* --requeue-on, borrowed */
	int on_preempt, on_timeout; /* the same; both 0: never */
	int is_first_node;
};

/* ---- pure ---- */

/* The first job in the output of `scontrol show job`. */
struct requeue_job {
	char state[32], reason[32];
	int batch;
	int preempted; /* it has a PreemptTime */
	uint32_t restarts;
	uint64_t end_time; /* 0: none, or not in seconds */
};

/* text: scontrol's output with SLURM_TIME_FORMAT=%s. ERR_DATA: it is something
 * else. */
int requeue_parse(struct requeue_job *j, const char *text, struct err *e);

enum requeue_why {
	REQUEUE_PREEMPTED, REQUEUE_TIMED_OUT, /* reasons to requeue */
	REQUEUE_DONE,      /* Slurm has requeued it */
	REQUEUE_CANCELLED, /* by a user, as far as we can tell */
	REQUEUE_BY_HAND,   /* the step got a signal, but the job goes on */
	REQUEUE_NO_BATCH,  /* salloc or srun made the job: it has no script */
};

/* How ddprun was asked to stop: warned of the time limit, cut short; and how
 * often the job had been requeued when it began. */
struct requeue_notice {
	int warned, cut;
	uint32_t restarts;
};

enum requeue_why requeue_decide(const struct requeue_job *j,
				const struct requeue_notice *n);

/* The id by which scontrol knows this job, and no other job of its array, into
 * out[64]; returns out. */
const char *requeue_id(allocation_get *get, char *out);

/* ---- not pure ---- */

/* Before ddprun starts the step: ERR_USAGE if there is no batch job to requeue.
 * Sets $SLURM_JOB_END_TIME if Slurm did not. If scontrol fails, warns. */
int requeue_prepare(const struct requeue_options *o, struct err *e);

/* After all workers of all nodes have stopped as asked: on the step's first
 * node, requeues the job or logs why not. */
void requeue_run(const struct requeue_options *o,
		 const struct requeue_notice *n);

#endif

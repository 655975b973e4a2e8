/* requeue.h: gives a batch job of Slurm's back to the queue when it was made to
 * stop, through scontrol, the only one who knows why that was. */
#ifndef LAUNCHER_REQUEUE_H
#define LAUNCHER_REQUEUE_H

#include "launcher/config/config.h"

/* ---- pure ---- */

/* What `scontrol show job` says, of the first job that it shows. */
struct requeue_job {
	char state[32], reason[32];
	int batch;
	int preempted; /* it has a time at which it was */
	uint32_t restarts;
	uint64_t end_time; /* 0: none, or not said in seconds */
};

/* ERR_DATA: that is no such text. It is to be asked for with
 * SLURM_TIME_FORMAT=%s. */
int requeue_parse(struct requeue_job *j, const char *text, struct err *e);

enum requeue_why {
	REQUEUE_PREEMPTED, REQUEUE_TIMED_OUT, /* causes for it */
	REQUEUE_DONE,      /* Slurm has done it */
	REQUEUE_CANCELLED, /* by a person, as far as can be known */
	REQUEUE_BY_HAND,   /* the step was told, and the job goes on */
	REQUEUE_NO_BATCH,  /* salloc's or srun's: there is no script */
};

/* How ddprun was told: by the end of the time or a warning of it; cut short;
 * and how often the job had been requeued when it began. */
struct requeue_told {
	int warned, cut;
	uint32_t restarts;
};

enum requeue_why requeue_decide(const struct requeue_job *j,
				const struct requeue_told *told);

/* How scontrol has to call this job, and no other of its array, into out[64];
 * returns out. */
const char *requeue_id(allocation_get *get, char *out);

/* ---- not pure ---- */

/* Where ddprun starts the step: ERR_USAGE if there is no batch job to requeue.
 * Sets $SLURM_JOB_END_TIME where this Slurm does not; what scontrol cannot say
 * is a warning. */
int requeue_prepare(const struct config *c, struct err *e);

/* On the step's first node, when all workers of all nodes have stopped as they
 * were told: does it, or says why not, in one line. */
void requeue_run(const struct config *c, const struct requeue_told *told);

#endif

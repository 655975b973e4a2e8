/* local_workers.h: the workers of this user on this host: their ranks and jobs,
 * from their agents' flight recorders; their state, from /proc; and their last
 * calls of libddp. */
#ifndef LAUNCHER_LOCAL_WORKERS_H
#define LAUNCHER_LOCAL_WORKERS_H

#include "base/flight_recorder.h"

enum local_recorder {
	RECORDER_KNOWN,
	RECORDER_SILENT,  /* it has not called ddp_init, or records nothing */
	RECORDER_DAMAGED, /* or of another version */
};

struct local_worker {
	const struct flight_file *job; /* its agent's, or its own */
	uint32_t rank, local_rank;
	pid_t pid;
	pid_t program; /* that calls libddp: pid, or a descendant of it */
	char state; /* program's, as in /proc/PID/stat; 0: it has ended */
	double cpu_s;
	enum local_recorder recorder;
	struct flight_view *view; /* NULL unless RECORDER_KNOWN */
};

struct local_workers {
	struct local_worker *workers; /* by job, then by rank */
	size_t n;
	struct flight_file *jobs[1024]; /* one for each agent */
	size_t njobs;
	uint64_t now_ns; /* clock_ns when they were read */
};

/* job: only the one with this --rdzv-id; NULL: all. agent: only that ddprun's;
 * 0: all. -ENOMEM, or an error of /proc. */
int local_workers_init(struct local_workers *l, const char *job, pid_t agent,
		       struct err *e);
void local_workers_release(struct local_workers *l);

/* Removes n workers from i on. */
void local_workers_remove(struct local_workers *l, size_t i, size_t n);

/* Pure: whether both belong to the same round of the same job. */
int local_worker_same_job(const struct local_worker *a,
			  const struct local_worker *b);

/* Pure: the ranks of this host that worker i waits for in its call. Fills at
 * most max; returns how many there are. *elsewhere: how many ranks of the
 * communicator are on other hosts, or unknown. */
size_t local_workers_missing(const struct local_workers *l, size_t i,
			     uint32_t *ranks, size_t max, uint32_t *elsewhere);

/* Pure: its last collective in a communicator, or NULL. */
const struct flight_op *
local_worker_last_collective(const struct local_worker *w, uint32_t comm);

/* The name of a state: "running", "sleeping", ...; 0 is "ended". */
const char *local_worker_state(char state);

#endif

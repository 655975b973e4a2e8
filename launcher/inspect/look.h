/* look.h: the workers of this user on this host, as they are now: who they are,
 * from their agents' flight recorders; what the kernel says of them; what they
 * were doing last. */
#ifndef LAUNCHER_LOOK_H
#define LAUNCHER_LOOK_H

#include "base/flight.h"

enum look_recorder {
	LOOK_KNOWN,
	LOOK_SILENT,  /* it has not called ddp_init, or records nothing */
	LOOK_GARBAGE, /* it is damaged, or of another version */
};

struct look_worker {
	const struct flight_file *job; /* of its agent, or its own */
	uint32_t rank, local_rank;
	pid_t pid;
	pid_t program; /* who calls libddp: it, or what it started */
	char state; /* program's, as in /proc/PID/stat; 0: it has ended */
	double cpu_s;
	enum look_recorder recorder;
	struct flight_view *view; /* NULL unless it is known */
};

struct look {
	struct look_worker *workers; /* by job, then by rank */
	size_t n;
	struct flight_file *jobs[1024]; /* one an agent */
	size_t njobs;
	uint64_t now_ns; /* clock_ns, when they were looked at */
};

/* job: only of that --rdzv-id; NULL: all. agent: only of that ddprun; 0: all.
 * -ENOMEM, or an error of /proc. */
int look_init(struct look *l, const char *job, pid_t agent, struct err *e);
void look_release(struct look *l);

/* Whether two belong to the same round of the same job. Pure, as what follows.
 */
int look_same_job(const struct look_worker *a, const struct look_worker *b);

/* Forgets n workers from i on. */
void look_drop(struct look *l, size_t i, size_t n);

/* Which ranks of its group worker i waits for: those of this host that have not
 * come to its call. Fills at most max; returns how many there are. *elsewhere:
 * so many ranks of the group are not on this host, or not known. */
size_t look_missing(const struct look *l, size_t i, uint32_t *ranks, size_t max,
		    uint32_t *elsewhere);

/* Its last call in a communicator that all of its ranks make, or NULL. */
const struct flight_op *look_last_in(const struct look_worker *w,
				     uint32_t comm);

/* "running", "sleeping", "stopped", ...; "ended". */
const char *look_state(char state);

#endif

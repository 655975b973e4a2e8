/* step.h: what a task of an srun step can conclude from the step's variables.
 * Pure: texts in, numbers out; asks neither the network nor slurmctld. */
#ifndef SLURM_STEP_H
#define SLURM_STEP_H

#include <stdint.h>

#include "base/error.h"
#include "slurm/hostlist.h"

enum {
	STEP_PORTS = 16, /* how many ports a step tries, one after the other */
	STEP_PORT_FIRST = 20000, /* below what Linux gives away by itself */
	STEP_PORT_END = 32000,
};

/* Of a variable like SLURM_STEP_TASKS_PER_NODE ("2(x3),1"): the count of that
 * node, counted from 0. ERR_USAGE, naming the variable and what is wrong. */
int step_count_on(const char *name, const char *text, long node, long *count,
		  struct err *e);

/* The same of SLURM_STEP_TASKS_PER_NODE. */
int step_tasks_on(const char *tasks_per_node, long node, long *tasks,
		  struct err *e);

typedef const char *step_get(const char *name);

/* The node where the step's tasks meet, into out[HOSTLIST_NAME_MAX + 1]: the
 * first of SLURM_STEP_NODELIST, or of the first group of a heterogeneous job.
 * All tasks find the same one. ERR_USAGE names the variable. */
int step_meeting_node(step_get *get, char *out, struct err *e);

/* 1 for the one task that keeps what all meet at: the node's first. That is
 * not task 0 where a topology plugin orders the tasks (Slurm 26.05). */
int step_is_keeper(step_get *get, const char *meeting_node);

/* The ports where the step's tasks meet, i from 0 to STEP_PORTS - 1: the same
 * for all its tasks, others for other steps as far as there are enough. */
uint16_t step_port(uint64_t job, uint64_t step, int i);

#endif

/* step.h: what a task of an srun step can conclude from the step's variables.
 * Pure: texts in, numbers out; asks neither the network nor slurmctld. */
#ifndef SLURM_STEP_H
#define SLURM_STEP_H

#include <stdint.h>

#include "base/error.h"

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

/* The ports where the step's tasks meet, i from 0 to STEP_PORTS - 1: the same
 * for all its tasks, others for other steps as far as there are enough. */
uint16_t step_port(uint64_t job, uint64_t step, int i);

#endif
